"""Conversions on a real Ray, started here for the test: the same numbers as without."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import unstale

SCRIPT = """
import json, sys
import torch
from torch import nn
import unstale as us
from unstale.executors import WorkerError
from unstale.seeding import generator

torch.set_num_threads(1)
CENTRES = torch.tensor([[0.9, 0.1, 0.2, 0.1], [0.1, 0.9, 0.1, 0.3], [0.2, 0.1, 0.9, 0.8]])
LOCAL = us.LocalSpec(lr=0.3, steps=3)


class Net(nn.Module):  # of the script itself: nothing that workers could import
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, x):
        return self.layers(x)


def run(executor):
    model = Net()
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(0.4 * torch.randn(p.shape, generator=generator(i, "weights")))
    method = us.method(
        "convert",
        inversion={"iterations": 5, "warm_iterations": 3, "sparsity": 0, "max_loss": 9.0},
    )
    server = us.Server(model, method, local=LOCAL,
                       inputs=us.InputSpec((4,), 3, 0.0, 1.0), executor=executor)
    told, kinds = [], []
    for now in range(6):
        for client, late in (("f", 0), ("r", 2), ("s", 2), ("t", 3)):
            version, weights = server.check_out(client)
            x = CENTRES.repeat(4, 1) + 0.1 * torch.randn(12, 4, generator=generator(0, client))
            y = torch.full((12,), ord(client) % 3)
            delta = us.local_update(model, weights, x.clamp(0, 1), y, LOCAL)
            told.append((now + late, us.Update(client, version, delta, 12)))
        for at, update in told:
            if at == now:
                server.submit(update)
        kinds.append(server.step().count("converted"))
    return {n: p.flatten().tolist() for n, p in server.params.items()}, kinds


def dies(shared, item):
    import os
    os._exit(3)


def threads(shared, item):
    return torch.get_num_threads(), shared + item


if __name__ == "__main__":
    with us.OnRay(workers=2, threads=1) as executor:
        found = {"inline": run(us.Inline(2)), "ray": run(executor)}
        found["threads"] = executor.map(threads, 40, [2])
        try:
            executor.map(dies, 40, [1])
        except WorkerError as error:
            found["died"] = str(error)
        found["after"] = executor.map(threads, 40, [3])
    import ray
    found["still"] = ray.is_initialized()
    json.dump(found, open(sys.argv[1], "w"))
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_ray_gives_the_same_numbers(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    # Without this file Ray asks a cloud's metadata address where it is.
    (home / "ray_bootstrap_config.yaml").write_text("{}\n")
    script, answer = tmp_path / "script.py", tmp_path / "answer.json"
    script.write_text(SCRIPT)
    # Short, since Ray's sockets lie in it and their paths may have a hundred characters.
    place = tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True)
    environment = {
        **os.environ,
        "HOME": str(home),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_TMPDIR": place.name,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(unstale.__file__).parents[1]),
    }
    with place:
        done = subprocess.run(
            [sys.executable, str(script), str(answer)],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(answer.read_text())
    params, kinds = found["ray"]
    assert [params, kinds] == found["inline"], "bit by bit"
    assert kinds[2:] == [2, 3, 3, 3]
    assert found["threads"] == [[1, 42]]
    assert "A Ray worker died" in found["died"]
    assert found["after"] == [[1, 43]], "new workers take the place of lost ones"
    assert found["still"] is False, "what it started it also stopped"
