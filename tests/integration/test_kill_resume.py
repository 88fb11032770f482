"""`kill -9` at random moments: the run ends as if nothing had happened."""

import random
import signal
import time

import pytest

pytestmark = pytest.mark.slow

KILLS = 10
OPTIONS = (
    "--json", "--no-report", "--seeds", "0,1", "--set", "rounds=60",
    "--set", 'methods=["no_delay", "first_order", "asyn_tiers"]',
    "--set", "latency.rounds=12", "--set", "cohort.fast=4", "--set", "history.memory_bytes=60000",
)  # fmt: skip
# Every few rounds instead of every few seconds, so that many kills hit a checkpoint.
OFTEN = (
    "from unstale.experiment import run_experiment as r; "
    "r.__kwdefaults__['checkpoint_seconds'] = 0.03; "
)


def until_it_begins(process):
    while "→" not in process.stderr.readline():
        assert process.poll() is None


def test_ten_kills(start, finish, tmp_path, experiment):
    process = start("run", experiment, *OPTIONS, "--out", "undisturbed")
    until_it_begins(process)
    began = time.monotonic()
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    seconds = time.monotonic() - began  # all kills should come before that much work is done

    moments = random.Random(4711)
    lengths = []
    for _ in range(KILLS):
        process = start("run", experiment, *OPTIONS, "--out", "killed", "--resume", before=OFTEN)
        until_it_begins(process)
        time.sleep(moments.uniform(0.1, 1.0) * seconds / KILLS)
        # Else it failed, or the run is too short for all kills.
        assert process.poll() is None, process.communicate()[1]
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        lines = (tmp_path / "killed" / "rounds").rglob("*.jsonl")
        lengths.append(sum(path.read_bytes().count(b"\n") for path in lines))
    # Kills hit at different places, and runs went on instead of starting over.
    assert len(set(lengths)) > KILLS / 2
    assert lengths[-1] > lengths[0]
    assert not (tmp_path / "killed" / "summary.json").exists()

    code, _, err = finish("run", experiment, *OPTIONS, "--out", "killed", "--resume", before=OFTEN)
    assert code == 0, err
    one, two = ((tmp_path / d / "summary.json").read_bytes() for d in ("undisturbed", "killed"))
    assert one == two
    for path in (tmp_path / "undisturbed").rglob("*.safetensors"):
        other = tmp_path / "killed" / path.relative_to(tmp_path / "undisturbed")
        assert other.read_bytes() == path.read_bytes()
