"""`unstale run --jobs`: the same numbers, and nobody is left behind however it ends."""

import os
import signal
import time
from pathlib import Path

import command_line
import pytest
import torch
from command_line import HANGS
from safetensors.torch import load_file, save_file

from unstale import models

OPTIONS = (
    "--json", "--no-report", "--seeds", "0,1", "--set", "rounds=60", "--set", "latency.rounds=12",
    "--set", 'methods=["no_delay", "first_order", "asyn_tiers"]', "--set", "cohort.fast=4",
)  # fmt: skip
HOLD = 50  # rounds of 360 after which a run waits for whatever is done to it


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """One after the other, in one process."""
    folder = tmp_path_factory.mktemp("undisturbed")
    process = command_line.start(folder, "run", "quickstart", *OPTIONS, "--out", "run")
    code, _, err = command_line.finish(process)
    assert code == 0, err
    return folder / "run"


def assert_same(one: Path, two: Path) -> None:
    assert (one / "summary.json").read_bytes() == (two / "summary.json").read_bytes()
    weights = sorted(one.rglob("final.safetensors"))
    assert len(weights) == 6
    for path in weights:
        assert (two / path.relative_to(one)).read_bytes() == path.read_bytes()


def workers_of(pid: int) -> list[int]:
    """Return the processes that a process started, of those the ones that spawn made."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            command = (entry / "cmdline").read_bytes()
        except (OSError, ValueError, IndexError):
            continue
        if parent == pid and b"spawn_main" in command:
            found.append(int(entry.name))
    return found


def at_work(process, folder: Path) -> list[int]:
    """Wait until both workers write rounds; return them."""
    deadline = time.monotonic() + HANGS
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1]
        lines = sum(path.read_bytes().count(b"\n") > 2 for path in folder.rglob("*.jsonl"))
        if lines >= 2 and len(found := workers_of(process.pid)) == 2:
            return found
        time.sleep(0.02)
    raise AssertionError("The workers never began.")


def gone(pids: list[int]) -> bool:
    deadline = time.monotonic() + HANGS
    while time.monotonic() < deadline:
        left = [pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists()]
        # A process that has ended but that nobody has waited for has no command line.
        if not any(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.slow
def test_the_same_numbers(finish, tmp_path, experiment, undisturbed):
    code, out, err = finish("run", experiment, *OPTIONS, "--out", "three", "--jobs", "3")
    assert code == 0, err
    assert '"affected_accuracy"' in out
    assert "asyn_tiers seed 1 round 60/60" in err
    assert_same(undisturbed, tmp_path / "three")


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_their_parent(start, finish, tmp_path, experiment, undisturbed, end):
    arguments = ("run", experiment, *OPTIONS, "--out", "ended", "--jobs", "2")
    process = start(*arguments, hold=HOLD)
    workers = at_work(process, tmp_path / "ended")
    process.send_signal(end)
    _, err = process.communicate(timeout=HANGS)
    assert gone(workers)
    if end == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 1
        assert "Go on with: unstale run" in err
        assert "--jobs 2" in err
        assert "Traceback" not in err, err
    assert not (tmp_path / "ended" / "summary.json").exists()
    code, _, err = finish(*arguments, "--resume")
    assert code == 0, err
    assert_same(undisturbed, tmp_path / "ended")


@pytest.mark.slow
def test_workers_end_also_within_a_long_round(start, tmp_path, experiment):
    """They have nothing to tell for minutes, and yet must not outlive the lock of their parent."""
    arguments = ("run", experiment, *OPTIONS, "--set", "local.epochs=1000000", "--out", "long")
    process = start(*arguments, "--jobs", "2")
    deadline = time.monotonic() + HANGS
    while time.monotonic() < deadline:
        workers = workers_of(process.pid)
        # Starting takes about 2 seconds of their time; what comes after is the first round.
        if len(workers) == 2 and all(seconds_of(pid) > 6 for pid in workers):
            break
        time.sleep(0.1)
    else:
        raise AssertionError("The workers never came to their round.")
    process.kill()
    process.wait()
    assert gone(workers)


def seconds_of(pid: int) -> float:
    """Return the CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_ctrl_c_in_a_terminal_while_workers_start(start, tmp_path, experiment):
    """It reaches the workers too, which then know of no handler yet."""
    arguments = ("run", experiment, *OPTIONS, "--out", "early", "--jobs", "2")
    process = start(*arguments, hold=HOLD, start_new_session=True)
    while not (workers := workers_of(process.pid)):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=HANGS)
    assert process.returncode == 1
    assert "Go on with: unstale run" in err
    assert "Traceback" not in err, err
    assert gone(workers)


@pytest.mark.slow
def test_a_lost_worker_is_said_and_nothing_is_lost(
    start, finish, tmp_path, experiment, undisturbed
):
    arguments = ("run", experiment, *OPTIONS, "--out", "lost", "--jobs", "2")
    process = start(*arguments, hold=HOLD)
    workers = at_work(process, tmp_path / "lost")
    os.kill(workers[0], signal.SIGKILL)
    command_line.release(tmp_path)
    _, err = process.communicate(timeout=HANGS)
    assert process.returncode == 1
    assert "A worker of this run should live" in err
    assert "Traceback" not in err, err
    assert gone(workers)
    code, _, err = finish(*arguments, "--resume")
    assert code == 0, err
    assert_same(undisturbed, tmp_path / "lost")


@pytest.mark.slow
def test_what_is_wrong_with_one_part_stops_all(start, finish, tmp_path, experiment):
    arguments = ("run", experiment, *OPTIONS, "--out", "bad", "--jobs", "2")
    process = start(*arguments, hold=HOLD)
    at_work(process, tmp_path / "bad")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=HANGS)
    damaged = next((tmp_path / "bad" / "rounds").rglob("*.jsonl"))
    damaged.write_text("not a record\n" + damaged.read_text())
    code, _, err = finish(*arguments, "--resume")
    assert code == 1
    assert damaged.name in err
    assert "Traceback" not in err, err


@pytest.mark.parametrize("jobs", ["0", "-1"])
def test_no_jobs_are_refused(finish, tmp_path, experiment, jobs):
    code, _, err = finish("run", experiment, *OPTIONS, "--out", "none", "--jobs", jobs)
    assert code == 2
    assert "`jobs` should be a whole number of at least 1" in err
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_workers_find_pretrained_weights_under_the_data_root(finish, tmp_path):
    trained = models.build("digits", (1, 8, 8), 7, seed=9).state_dict()
    save_file(trained, tmp_path / "net.safetensors")
    code, _, err = finish(
        "run", "quickstart", *OPTIONS, "--set", "rounds=2", "--jobs", "2", "--out", "run",
        "--data", str(tmp_path), "--set", "model.weights=net.safetensors",
        "--set", 'model.freeze=["1"]',
    )  # fmt: skip
    assert code == 0, err
    assert "Initial values, from the seed: 3.weight, 3.bias." in err
    finals = [load_file(path) for path in (tmp_path / "run").rglob("final.safetensors")]
    assert len(finals) == 6
    for weights in finals:
        assert torch.equal(weights["1.weight"], trained["1.weight"])
    assert not torch.equal(finals[0]["3.weight"], finals[1]["3.weight"])


TASK = """
import torch

def load():
    y = torch.arange(90) % 3
    x = torch.rand(90, 4, generator=torch.Generator().manual_seed(0)) / 2 + y[:, None] / 6
    return x, y, x, y

def net(input_shape, num_classes):
    return torch.nn.Linear(*input_shape, num_classes)
"""
MINE = """
rounds = 3
threads = 1
data.factory = "task_of_jobs:load"
model.factory = "task_of_jobs:net"
partition = { kind = "iid", clients = 5 }
latency = { kind = "constant", rounds = 1 }
methods = ["unweighted"]
"""
PLUGIN = """
from unstale.methods import MethodSpec, register

register("as_they_come", MethodSpec("As they come.", "-"))
"""


@pytest.mark.slow
def test_functions_and_plugins_of_ones_own_reach_other_processes(tmp_path):
    for name, text in {"task_of_jobs.py": TASK, "my.toml": MINE, "plug.py": PLUGIN}.items():
        (tmp_path / name).write_text(text)
    options = ("run", "my.toml", "--plugin", "plug.py", "--methods", "unweighted,as_they_come")
    for jobs in (1, 2):
        more = ("--jobs", str(jobs), "--no-report", "--out", f"jobs-{jobs}")
        code, _, err = command_line.finish(command_line.start(tmp_path, *options, *more))
        assert code == 0, err
    one, two = ((tmp_path / f"jobs-{jobs}" / "summary.json").read_bytes() for jobs in (1, 2))
    assert one == two
