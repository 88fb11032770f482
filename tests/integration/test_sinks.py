"""Sinks with the real libraries, offline, in a run that is killed and resumed."""

import signal
import time

import pytest
from read_back import mlflow, tensorboard, wandb

ROUNDS = 12
OPTIONS = (
    "--no-report", "--seeds", "0", "--set", f"rounds={ROUNDS}",
    "--set", 'methods=["unweighted", "weighted"]',
    "--sink", "tensorboard", "--sink", "mlflow", "--sink", "wandb",
)  # fmt: skip
# As often as possible instead of every few seconds.
OFTEN = (
    "from unstale.experiment import run_experiment as r; "
    "r.__kwdefaults__['checkpoint_seconds'] = 0.03; "
)


def all_have_got(folder, rounds):
    path = folder / "sinks" / "unweighted" / "seed-0.json"
    return path.is_file() and path.read_text().count(f'"written": {rounds},') == 3


@pytest.mark.slow
def test_three_libraries_have_every_round_of_a_killed_run_once(
    start, finish, tmp_path, experiment, monkeypatch
):
    pytest.importorskip("mlflow")
    pytest.importorskip("wandb")
    monkeypatch.delenv("WANDB_SERVICE", raising=False)
    again = ("run", experiment, *OPTIONS, "--out", "killed", "--resume")
    process = start(*again, before=OFTEN, hold=7)
    folder = tmp_path / "killed"
    while not all_have_got(folder, 6):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL

    code, _, err = finish(*again, before=OFTEN)
    assert code == 0, err
    assert "sink" not in err
    every = list(range(1, ROUNDS + 1))
    found_offline = {run["name"]: run for run in wandb(folder).values()}
    assert set(found_offline) == {"unweighted seed 0", "weighted seed 0"}
    for label in ("unweighted", "weighted"):
        events = tensorboard(folder / "tensorboard" / label / "seed-0")
        run, metrics = mlflow(folder, f"{label} seed 0")
        offline = found_offline[f"{label} seed 0"]
        assert run.info.status == "FINISHED"
        for scalars in (events, metrics, offline["scalars"]):
            for name in ("accuracy/all", "accuracy/affected", "arrivals/stale", "seconds/round"):
                assert [step for step, _ in scalars[name]] == every, (label, name)
        for name in ("accuracy/all", "accuracy/affected", "loss/test", "staleness/mean"):
            values = [value for _, value in metrics[name]]
            assert [value for _, value in events[name]] == pytest.approx(values)
            assert [value for _, value in offline["scalars"][name]] == pytest.approx(values)
        last = metrics["summary/accuracy"][-1][1]
        assert events["summary/accuracy"][-1][1] == pytest.approx(last)
        assert offline["summary"]["summary/accuracy"] == pytest.approx(last)
