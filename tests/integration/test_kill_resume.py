"""`kill -9` at random moments: the run ends as if nothing had happened."""

import json
import random
import signal
import time

import pytest

OPTIONS = (
    "--json", "--no-report", "--seeds", "0,1", "--set", "rounds=60",
    "--set", 'methods=["no_delay", "first_order", "asyn_tiers"]',
    "--set", "latency.rounds=12", "--set", "cohort.fast=4", "--set", "history.memory_bytes=60000",
)  # fmt: skip
ROUNDS = 60 * 3 * 2
STEP, SLACK = 20, 8  # a kill comes at most so many rounds after the last one, and a little later
# As often as possible instead of every few seconds, so that many kills hit a checkpoint.
OFTEN = (
    "from unstale.experiment import run_experiment as r; "
    "r.__kwdefaults__['checkpoint_seconds'] = 0.03; "
)


def rounds_done(folder):
    return sum(path.read_bytes().count(b"\n") for path in (folder / "rounds").rglob("*.jsonl"))


def kill_after(rounds, process, folder):
    """Kill a run as soon as so many rounds are seen, wherever it is by then."""
    while rounds_done(folder) < rounds:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_killed_runs_end_with_the_same_bytes(kills, start, finish, tmp_path, experiment):
    code, _, err = finish("run", experiment, *OPTIONS, "--out", "undisturbed")
    assert code == 0, err

    again = ("run", experiment, *OPTIONS, "--out", "killed", "--resume")
    draw, done = random.Random(4711), 0
    assert kills * (STEP + SLACK) < ROUNDS
    for _ in range(kills):
        # Always further than the last one came, so it went on; and never to the end.
        rounds = done + draw.randint(1, STEP)
        process = start(*again, before=OFTEN, hold=rounds + SLACK)
        kill_after(rounds, process, tmp_path / "killed")
        done = rounds_done(tmp_path / "killed")
    assert not (tmp_path / "killed" / "summary.json").exists()

    code, _, err = finish(*again, before=OFTEN)
    assert code == 0, err
    one, two = ((tmp_path / d / "summary.json").read_bytes() for d in ("undisturbed", "killed"))
    assert one == two
    for path in (tmp_path / "undisturbed").rglob("*.safetensors"):
        other = tmp_path / "killed" / path.relative_to(tmp_path / "undisturbed")
        assert other.read_bytes() == path.read_bytes()


ABSENCES = (
    "--json", "--no-report", "--seeds", "3", "--set", "rounds=100", "--set", "overlap=false",
    "--set", 'methods=[{name="convert", inversion={iterations=20, warm_iterations=5}}, "memory"]',
    "--set", "latency.rounds=6", "--set", "cohort.fast=4", "--set", "history.memory_bytes=60000",
)  # fmt: skip


def lines_of(folder):
    """Return the lines of all rounds by file, times aside."""
    found = {}
    for path in sorted((folder / "rounds").rglob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        found[path.parent.name] = [
            {key: value for key, value in line.items() if key != "seconds"} for line in lines
        ]
    return found


@pytest.mark.slow
def test_ten_kills_amid_absences_change_no_line(start, finish, tmp_path, experiment):
    code, _, err = finish("run", experiment, *ABSENCES, "--surrogates", "--out", "undisturbed")
    assert code == 0, err

    again = ("run", experiment, *ABSENCES, "--surrogates", "--out", "killed", "--resume")
    draw, done, kills, step, slack = random.Random(1117), 0, 10, 13, 6
    assert kills * (step + slack) < 100 * 2
    for _ in range(kills):
        rounds = done + draw.randint(1, step)
        process = start(*again, before=OFTEN, hold=rounds + slack)
        kill_after(rounds, process, tmp_path / "killed")
        done = rounds_done(tmp_path / "killed")
    assert not (tmp_path / "killed" / "summary.json").exists()

    code, _, err = finish(*again, before=OFTEN)
    assert code == 0, err
    wanted, found = lines_of(tmp_path / "undisturbed"), lines_of(tmp_path / "killed")
    assert sorted(wanted) == ["convert", "memory"]
    for method, lines in wanted.items():
        assert found[method] == lines
        assert [line["round"] for line in found[method]] == list(range(1, 101)), "no gap"
        assert sum(len(line.get("stand_ins", ())) for line in lines) > 20
    assert any(line.get("checked") for line in wanted["convert"])
    one, two = ((tmp_path / d / "summary.json").read_bytes() for d in ("undisturbed", "killed"))
    assert one == two
    compared = 0
    for path in (tmp_path / "undisturbed").rglob("*"):
        if path.name == "final.safetensors" or "surrogates" in path.parts:
            other = tmp_path / "killed" / path.relative_to(tmp_path / "undisturbed")
            if path.is_file():
                assert other.read_bytes() == path.read_bytes()
                compared += 1
    assert compared == 3
