import dataclasses
import sys

import pytest
from logged_run import told_of, write_logged_run

from unstale.errors import ConfigError
from unstale.flower.round_line import round_line
from unstale.flower.run_log import RunLog
from unstale.flower.tensorboard import Scalars, check_installed, scalars_of
from unstale.run_folder import Round
from unstale.run_folder.schema import Checked, StoodIn


def line(t, **changes):
    told = {**told_of(t), **changes}
    return round_line(told.pop("report"), **told)


def read(folder):
    """What TensorBoard would show: steps and values by name."""
    event_accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    found = event_accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    scalars = {name: found.Scalars(name) for name in found.Tags()["scalars"]}
    for events in scalars.values():
        steps = [event.step for event in events]
        assert steps == sorted(set(steps)), "a round is there twice"
    return {name: {e.step: e.value for e in events} for name, events in scalars.items()}


def write(folder, rounds, after=None):
    scalars = Scalars(folder, after)
    for t in rounds:
        scalars.round(line(t))
    scalars.close()


def test_what_is_written_can_be_read_back(tmp_path):
    write(tmp_path, range(1, 15))
    found = read(tmp_path)
    assert set(found) == {
        *("accuracy/all", "accuracy/affected", "loss/test", "metrics/macro_f1"),
        *("arrivals/all", "arrivals/stale", "nodes/answered", "nodes/working"),
        *("nodes/longest_work", "staleness/mean", "staleness/max", "history/megabytes"),
        *("conversions/count", "conversions/iterations", "conversions/loss"),
        *("conversions/fallbacks", "refused/all", "refused/not_finite"),
        *("seconds/round", "seconds/step", "stand_ins/absent", "stand_ins/count"),
        *("calibration/count", "calibration/probes_fitted", "calibration/other_recipes"),
    }
    for t in (1, 6, 13):
        expected = line(t)
        for name, value in {
            "accuracy/all": expected.accuracy,
            "accuracy/affected": expected.affected_accuracy,
            "arrivals/all": expected.arrivals,
            "staleness/mean": expected.mean_staleness,
            "staleness/max": expected.max_staleness,
            "conversions/count": expected.conversions,
            "conversions/iterations": expected.iterations,
            "seconds/round": expected.seconds,
        }.items():
            assert found[name][t] == pytest.approx(value), name
    assert set(found["conversions/loss"]) == {6, 11}
    assert found["conversions/loss"][6] == pytest.approx(line(6).converted[0].loss)
    assert found["refused/all"] == {t: float(t == 13) for t in range(1, 15)}
    assert found["refused/not_finite"] == {13: 1.0, 14: 0.0}  # from the first one on


def test_a_resumed_run_shows_each_round_once(tmp_path):
    write(tmp_path, range(1, 9))
    first = read(tmp_path)["arrivals/all"]
    write(tmp_path, range(6, 11), after=5)  # killed after round 8, its checkpoint is of round 5
    found = read(tmp_path)
    assert list(found["arrivals/all"]) == list(range(1, 11))
    assert {t: found["arrivals/all"][t] for t in first} == first


def test_rounds_without_evaluation_are_left_out(tmp_path):
    scalars = Scalars(tmp_path)
    scalars.round(line(1))
    scalars.round(line(2, evaluation={"class-accuracy": [0.1]}))
    scalars.close()
    assert set(read(tmp_path)["accuracy/all"]) == {1}


def test_what_waits_in_the_background_is_written_where_there_is_one(tmp_path):
    scalars = Scalars(tmp_path)
    scalars.round(line(1))
    scalars.round(dataclasses.replace(line(2), awaiting_fit=0))
    scalars.round(dataclasses.replace(line(3), awaiting_fit=2))
    scalars.close()
    assert read(tmp_path)["conversions/awaiting_fit"] == {2: 0.0, 3: 2.0}


def test_a_full_disk_does_not_stop_the_server(tmp_path, monkeypatch, caplog):
    scalars = Scalars(tmp_path)

    def full(writer):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("torch.utils.tensorboard.SummaryWriter.flush", full)
    scalars.round(line(1))
    scalars.round(line(2))
    assert [r.getMessage() for r in caplog.records] == [
        "No more scalars are written for TensorBoard: [Errno 28] No space left on device"
    ]


@pytest.fixture
def _absent(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    monkeypatch.setitem(sys.modules, "tensorboard", None)


@pytest.mark.usefixtures("_absent")
def test_its_absence_is_told_before_anything_runs(tmp_path):
    with pytest.raises(ConfigError, match=r"pip install 'unstale\[tensorboard\]'"):
        check_installed()
    with pytest.raises(ConfigError, match="TensorBoard should be installed"):
        RunLog(tmp_path / "run", method="convert", tensorboard=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("_absent")
def test_without_the_wish_nothing_is_needed(tmp_path):
    write_logged_run(tmp_path / "run", rounds=2)


def test_stand_ins_are_counted_with_their_age_and_their_error():
    stood_in = (StoodIn("a", age=3), StoodIn("b", age=6))
    checked = (Checked("a", 3, error=0.25, share=1.0), Checked("b", 3, error=None, share=None))
    found = scalars_of(Round(3, absent=4, stand_ins=stood_in, checked=checked), set())
    assert {name: found[f"stand_ins/{name}"] for name in ("absent", "count")} == {
        "absent": 4.0,
        "count": 2.0,
    }
    assert (found["stand_ins/mean_age"], found["stand_ins/error"]) == (4.5, 0.25)
    without = scalars_of(Round(3), set())
    assert without["stand_ins/count"] == 0
    assert not {"stand_ins/mean_age", "stand_ins/error"} & {*without}
