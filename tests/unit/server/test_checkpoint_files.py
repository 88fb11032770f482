"""Which files a checkpoint writes, keeps and trusts; crashes, full disks and no pickles."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import unstale
import unstale as us
from unstale.server.checkpoint import KEPT, Checkpoints

SRC = Path(unstale.__file__).parent


def reader(value):
    return lambda: {"w": torch.full((3,), float(value))}


def names(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_versions_are_written_once_and_removed_when_nobody_needs_them(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.write({}, {0: reader(0), 1: reader(1)})
    first = {p: p.stat().st_mtime_ns for p in (tmp_path / "versions").iterdir()}
    unread = pytest.fail
    checkpoints.write({}, {1: unread, 2: reader(2)})
    assert all(p.stat().st_mtime_ns == when for p, when in first.items())
    checkpoints.write({}, {2: unread})
    kept = {p.name.partition("-")[0].lstrip("0") for p in (tmp_path / "versions").iterdir()}
    assert kept == {"1", "2"}  # 0 is needed by neither of the last two
    assert len(list(tmp_path.glob("checkpoint-*.json"))) == KEPT
    assert len(list(tmp_path.glob("checkpoint-*.safetensors"))) == KEPT


def test_versions_that_were_read_are_not_written_again(tmp_path):
    Checkpoints(tmp_path).write({}, {1: reader(1)})
    again = Checkpoints(tmp_path)
    again.read()
    again.write({}, {1: pytest.fail})
    assert Checkpoints(tmp_path).read()[1][1]()["w"].tolist() == [1.0] * 3


def test_a_version_file_that_vanished_is_written_again(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.write({}, {1: reader(1)})
    next((tmp_path / "versions").iterdir()).unlink()
    checkpoints.write({}, {1: reader(1)})
    assert Checkpoints(tmp_path).read()[1][1]()["w"].tolist() == [1.0] * 3


def test_another_run_in_the_same_folder_neither_trusts_nor_spoils_what_is_there(tmp_path):
    def server_with(bias):
        model = nn.Linear(1, 1)
        with torch.no_grad():
            model.bias.fill_(bias)
        return us.Server(model)

    server_with(1.0).save(tmp_path)
    other = server_with(2.0)
    # It dies after its version files, before its JSON: the first one must still be whole.
    stranger = Checkpoints(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        stranger.write({"x": Interrupting()}, other.to_tree()[1])
    assert us.Server.load(tmp_path).params["bias"].item() == 1.0
    other.save(tmp_path)
    loaded = us.Server.load(tmp_path)
    assert (loaded.params["bias"].item(), loaded.weights_of(0)["bias"].item()) == (2.0, 2.0)


class Interrupting(dict):
    def __iter__(self):
        raise KeyboardInterrupt


def test_what_a_crash_left_half_written_is_ignored_and_cleared(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.write({"x": 1}, {0: reader(0)})
    rests = [".checkpoint-0000000002.json.ab.tmp", "versions/.0000000001.safetensors.cd.tmp"]
    orphans = ["checkpoint-0000000002.safetensors", "versions/0000000009-ab.safetensors"]
    for name in rests + orphans:
        (tmp_path / name).write_bytes(b"half")
    assert Checkpoints(tmp_path).read()[0] == {"x": 1}
    checkpoints.write({"x": 2}, {0: reader(0)})
    assert Checkpoints(tmp_path).read()[0] == {"x": 2}
    assert not set(names(tmp_path)) & {*rests, orphans[1]}


KILLED = """
import os, random, signal, sys, torch, unstale as us
from torch import nn

def save_for_ever(server, told):
    while True:
        client = f"c{server.version % 5}"
        version, params = server.check_out(client)
        if version % 3:  # else the client never answers, and its version is kept
            delta = {n: torch.ones_like(p) for n, p in params.items()}
            server.submit(us.Update(client, version, delta, 1))
        server.step()
        server.save(sys.argv[1])
        os.write(told, b".")

model = nn.Linear(50, 20)
nn.init.zeros_(model.bias)
us.Server(model, method="first_order").save(sys.argv[1])
moments = random.Random(0)
for _ in range(20):
    server = us.Server.load(sys.argv[1])
    assert all(p.eq(sum(v % 3 > 0 for v in range(server.version))).all()
               for n, p in server.params.items() if n == "bias"), server.version
    assert server.outstanding == list(range(0, server.version, 3)), server.outstanding
    assert all(server.weights_of(v) is not None for v in server.outstanding)
    hears, told = os.pipe()
    child = os.fork()
    if child == 0:
        save_for_ever(server, told)
    for _ in range(moments.randint(1, 5)):
        os.read(hears, 1)
    for _ in range(moments.randint(0, 100)):  # the child goes on meanwhile: into its next save
        os.listdir(sys.argv[1])
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(hears)
    os.close(told)
print(us.Server.load(sys.argv[1]).version)
"""


def test_kill_9_at_any_moment_leaves_a_checkpoint_that_goes_on_exactly(tmp_path):
    process = start([sys.executable, "-c", KILLED, str(tmp_path)])
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    assert int(output) > 20
    assert len(list(tmp_path.glob("checkpoint-*.json"))) <= KEPT + 1


FULL = """
import resource, sys, torch, unstale as us
from torch import nn
server = us.Server.load(sys.argv[1])
server.step()
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    server.save(sys.argv[1])
except OSError as error:
    print(type(error).__name__, error.errno)
"""


def test_a_full_disk_is_an_os_error_and_the_old_checkpoint_stays(tmp_path):
    server = us.Server(nn.Linear(50, 20))
    server.save(tmp_path)
    before = names(tmp_path)
    process = start([sys.executable, "-c", FULL, str(tmp_path)])
    output, _ = process.communicate(timeout=600)
    assert output.split()[0] == b"OSError"
    assert names(tmp_path) == before  # no rest either
    assert torch.equal(us.Server.load(tmp_path).params["weight"], server.params["weight"])


def start(command):
    env = {**os.environ, "PYTHONPATH": str(SRC.parent), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=env)


def test_nothing_in_the_package_unpickles():
    """Three exceptions: CIFAR's published pickles go through an allow-list, a pool of workers
    unpickles what this process itself sent to the processes that it started, and published weights
    go through torch's own allow-list."""
    loaders = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
    found = set()
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            where = path.relative_to(SRC).as_posix()
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            else:
                modules = []
            if {module.partition(".")[0] for module in modules} & loaders:
                found.add(where)
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "torch.load":
                found.add(where)
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert ast.unparse(node.value) == "False", where
            if isinstance(node, ast.keyword) and node.arg == "weights_only":
                assert ast.unparse(node.value) == "True", where
    assert found == {"data/unpickle.py", "executors/worker.py", "models/weight_files.py"}
