"""`unstale run --tune`, killed among its tries: it ends as if nothing had happened."""

import json
import signal
import time

OPTIONS = (
    "--tune", "--no-report", "--json", "--seeds", "10", "--set", "rounds=30",
    "--set", 'methods=["no_delay", {name="first_order", tune={lam=[1, 5]}}]',
    "--set", "latency.rounds=8", "--set", "cohort.fast=4",
)  # fmt: skip
TRIED = 2 * 2 * 30  # rounds of two settings on two seeds


def rounds_done(folder):
    return sum(path.read_bytes().count(b"\n") for path in folder.rglob("*.jsonl"))


def record_of(folder):
    found = json.loads((folder / "tuning.json").read_text())
    return {key: value for key, value in found.items() if key != "environment"}


def test_killed_among_the_tries_and_resumed_with_more_jobs(start, finish, tmp_path, experiment):
    code, out, err = finish("run", experiment, *OPTIONS, "--out", "undisturbed")
    assert code == 0, err
    assert "Tuning on seeds 0, 1, by affected_and_overall" in err
    assert json.loads(out)["tuning"]["methods"]["first_order"]["chosen"] is not None

    again = ("run", experiment, *OPTIONS, "--out", "killed", "--resume")
    process = start(*again, hold=TRIED // 2)
    while rounds_done(tmp_path / "killed" / "tuning") < TRIED // 2:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not record_of(tmp_path / "killed")["finished"]

    code, _, err = finish(*again, "--jobs", "2")
    assert code == 0, err
    one, two = tmp_path / "undisturbed", tmp_path / "killed"
    assert (one / "summary.json").read_bytes() == (two / "summary.json").read_bytes()
    assert record_of(one) == record_of(two)
    for path in (one / "checkpoints").rglob("*.safetensors"):
        assert (two / path.relative_to(one)).read_bytes() == path.read_bytes()
