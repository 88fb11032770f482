"""The example under examples/flower: what its README says, its data, and its scripts."""

import difflib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "flower"
CONFIG = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]


def test_the_readme_shows_what_changes_in_a_plain_app():
    plain, ours = (
        (EXAMPLE / "slow_nodes" / f"{name}.py").read_text().splitlines()
        for name in ("plain_server_app", "server_app")
    )
    diff = difflib.unified_diff(plain[2:], ours[2:], lineterm="", n=2)  # docstrings apart
    hunks = "\n".join(line for line in diff if not line.startswith(("---", "+++", "@@")))
    shown = (EXAMPLE / "README.md").read_text().split("```diff\n")[1].split("\n```")[0]
    shown = "\n".join(line for line in shown.splitlines() if not line.startswith("@@"))
    assert shown == hunks


@pytest.mark.parametrize(("nodes", "slow"), [(3, 1), (12, 3), (30, 12)])
def test_slow_nodes_are_alone_in_holding_the_affected_class(nodes, slow):
    from slow_nodes import task

    config = {**CONFIG, "slow-nodes": slow, "samples-per-node": 100}
    labels = task.dataset(config).y_train
    held = [task.partition_indices(node, nodes, config) for node in range(nodes)]
    everything = [int(sample) for part in held for sample in part]
    assert len(everything) == len(set(everything))
    classes = [set(labels[part].tolist()) for part in held]
    assert all(found == {5} for found in classes[nodes - slow :])
    assert all(5 not in found for found in classes[: nodes - slow])
    assert set.union(*classes) == set(range(10))


def test_the_server_is_told_how_nodes_really_train():
    """Else conversions would explain another training than the one that happened."""
    import torch
    from slow_nodes import task

    import unstale as us

    model = task.build_model(CONFIG)
    start = us.params_of(model)
    x, y = task.load_partition(0, 30, CONFIG)
    local, inputs = task.recipe(CONFIG)
    expected = us.local_update(model, start, x, y, local)
    task.train(model, x, y, CONFIG)
    for name, weight in us.params_of(model).items():
        torch.testing.assert_close(weight - start[name], expected[name], rtol=1e-4, atol=1e-6)
    assert x.shape[1:] == inputs.shape


def test_lenet_gets_images_that_are_large_enough():
    from slow_nodes import task

    config = {**CONFIG, "model": "lenet"}
    model = task.build_model(config)
    x, y = task.load_partition(0, 30, config)
    assert model(x).shape == (len(y), 10)


def test_stand_ins_keep_the_class_of_the_slow_nodes():
    """In the simulator; `results` has what the same is on Flower."""
    from compare import CASES, figures, in_the_simulator

    def ran(name):
        return figures(in_the_simulator({**CONFIG, "seed": 10, **CASES[name][0]}))

    there, not_there = ran("`convert`"), ran("`convert` without stand-ins")
    assert there["affected_second_half"] > not_there["affected_second_half"] + 0.5
    assert there["accuracy"] > not_there["accuracy"] + 0.05
    assert there["stand_ins"] > 0
    assert not_there["stand_ins"] == 0


def run_script(name, folder, *arguments):
    """Run a script of the example; return its exit code, its output, and what it left behind."""
    from deployment import HANGS, wait_until

    import unstale
    from marked_processes import MARK, kill_all, marked

    mark = secrets.token_hex(8)
    # Not in the test's own folder: the paths of Ray's sockets may have 107 characters only.
    temporary = tempfile.mkdtemp(prefix="us-")
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(Path(unstale.__file__).parents[1]),
        "FOLDER": str(folder / "run"),
        "TMPDIR": temporary,
        "SLOW_SECONDS": "1",
        "NODES": "3" if "deployment" in name else "12",
        MARK: mark,
    }
    try:
        done = subprocess.run(
            ["bash", EXAMPLE / name, *arguments], env=environment, cwd=folder, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=HANGS,
        )  # fmt: skip
        # A SuperLink tells its SuperExec to end, and does not wait for it.
        wait_until(lambda: not marked(mark), "the end of all processes")
        left = os.listdir(temporary)
    finally:
        kill_all(mark)
        shutil.rmtree(temporary)
    return done.returncode, done.stdout, left


@pytest.mark.slow
def test_simulations_of_two_methods_and_their_page_by_one_command(tmp_path, monkeypatch):
    monkeypatch.setenv("METHODS", "unweighted memory")
    settings = "num-rounds=6 slow-nodes=3 late-rounds=2 fraction-train=1.0"
    code, out, left = run_script("run_comparison.sh", tmp_path, "--run-config", settings)
    assert code == 0, out
    assert not left
    page = (tmp_path / "run" / "comparison.html").read_text()
    assert out.splitlines()[-1].endswith(f"{tmp_path}/run/comparison.html")
    assert "comparison of 2 runs" in page
    assert "Slow nodes on Flower" in page
    assert "Setting" not in page.split("</table>")[0], "the same scenario"
    for method in ("unweighted", "memory"):
        check_simulation(tmp_path / "run" / method, method)


def check_simulation(folder, method):
    """Six rounds of one method, with emulated lateness."""
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["rounds"] == 6
    assert list(summary["methods"]) == [method]
    (path,) = (folder / "rounds").rglob("*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    # Emulated lateness: three slow nodes, 1 to 3 rounds late, and all others in time.
    late = {rounds for line in lines for rounds in line["nodes"]["late"].values()}
    assert late == {1, 2, 3}
    assert len({node for line in lines for node in line["nodes"]["late"]}) == 3


@pytest.mark.slow
def test_a_run_that_fails_is_no_success(tmp_path):
    """`flwr run --stream` itself ends with 0."""
    code, out, left = run_script(
        "run_simulation.sh", tmp_path, "--run-config", 'method="nonsense" slow-nodes=3'
    )
    assert code == 1
    assert "nonsense" in out
    assert not left


@pytest.mark.slow
@pytest.mark.parametrize("mode", [[], ["--plain"]], ids=["tls", "plain"])
def test_deployment_by_one_command(tmp_path, mode):
    code, out, left = run_script(
        "run_deployment.sh", tmp_path, *mode, "--run-config", 'num-rounds=2 method="unweighted"'
    )
    assert code == 0, out
    assert not left
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["rounds"] == 2


def test_certificates_hold_for_the_named_hosts_only(tmp_path):
    from cryptography import x509
    from make_certificates import make_certificates

    folder = make_certificates(tmp_path / "keys", 2, ("10.0.0.7", "fl.example"))
    ca, server = (
        x509.load_pem_x509_certificate((folder / name).read_bytes())
        for name in ("ca.crt", "server.pem")
    )
    server.verify_directly_issued_by(ca)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["fl.example"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.7"]
    for private in ("server.key", "node0.key", "node1.key"):
        assert (folder / private).stat().st_mode & 0o077 == 0
    with pytest.raises(FileExistsError):
        make_certificates(folder, 2)
