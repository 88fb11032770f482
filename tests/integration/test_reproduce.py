"""Items of the paper as a user runs them: all in smoke runs, and one through a kill."""

import json
import signal
import time
from pathlib import Path

import pytest

from unstale.reproduce import find_experiments, read_catalogue

ITEMS = read_catalogue(find_experiments()).items


@pytest.mark.slow
def test_every_item_passes_a_smoke_run(finish, tmp_path):
    code, out, err = finish("reproduce", "--smoke", "--out", "out")
    assert code == 0, err
    for item in ITEMS:
        assert f"{item.name}: smoke run" in out
        for run in item.runs:
            summary = tmp_path / "out" / run.item / run.name / "summary.json"
            methods = json.loads(summary.read_text())["methods"]
            assert all(found["accuracy"] is not None for found in methods.values())


def rounds_done(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.rglob("*.jsonl"))


@pytest.mark.slow
def test_a_killed_item_goes_on_with_the_same_command(start, finish, tmp_path):
    words = ("reproduce", "weights", "--smoke", "--out", "out", "--json")
    process = start(*words, hold=8)
    while rounds_done(tmp_path / "out") < 8:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    run = tmp_path / "out" / "weights" / "mnist"
    assert not (run / "summary.json").exists()

    code, out, err = finish(*words)
    assert code == 0, err
    code, undisturbed, err = finish(*words[:4], "other", "--json")
    assert code == 0, err
    assert json.loads(out) == json.loads(undisturbed)
    other = tmp_path / "other" / "weights" / "mnist" / "summary.json"
    assert (run / "summary.json").read_bytes() == other.read_bytes()
