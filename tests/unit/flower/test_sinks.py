"""Sinks of a server on Flower: each round once, after its checkpoint."""

import pytest
from logged_run import told_of, write_logged_run
from pretend_clients import late_grid
from strategy_runs import of_kind, start, strategy

from unstale.errors import ConfigError
from unstale.flower.run_log import RunLog
from unstale.run_folder import Lines

pytestmark = pytest.mark.usefixtures("in_a_run")


class Kept:
    """A sink that keeps what it gets, over several processes."""

    def __init__(self):
        self.opened, self.rounds, self.closed = [], [], []

    def open(self, run):
        self.opened.append(run)
        return self

    def write(self, round, scalars):
        self.rounds.append((round, scalars))

    def close(self, summary):
        self.closed.append(summary)

    @property
    def steps(self):
        return [t for t, _ in self.rounds]


class Watching(Kept):
    """Notes which versions were written down when a round came."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self.known = folder, []

    def write(self, round, scalars):
        super().write(round, scalars)
        self.known.append({e["version"] for e in of_kind(self.folder, "version")})


def test_every_round_comes_after_its_checkpoint(tmp_path):
    sink = Watching(tmp_path / "run")
    start(strategy(tmp_path, sinks=[sink]), late_grid({3: 1.0, 4: 1.0}), rounds=3)
    assert sink.steps == [1, 2, 3]
    assert all(t in known for t, known in zip(sink.steps, sink.known, strict=True))
    (run,) = sink.opened
    assert (run.label, run.experiment) == ("unweighted", "run")
    assert run.settings["cohort"]["fraction_train"] == 1.0
    (summary,) = sink.closed
    assert summary["summary/conversions"] == 0.0
    assert sink.rounds[0][1]["nodes/answered"] == 2.0


def test_a_resumed_run_goes_on_in_the_same_one(tmp_path):
    sink = Kept()
    start(strategy(tmp_path, sinks=[sink]), late_grid({3: 1.0, 4: 1.0}), rounds=2)
    later = Kept()
    both = strategy(tmp_path, sinks=[sink])
    start(both, late_grid({3: 1.0, 4: 1.0}), rounds=4, resume=True)
    assert sink.steps == [1, 2, 3, 4]
    assert len({run.id for run in sink.opened}) == 1
    start(
        strategy(tmp_path, sinks=[sink, later]), late_grid({3: 1.0, 4: 1.0}), rounds=5, resume=True
    )
    assert later.steps == [1, 2, 3, 4, 5], "it is brought up to date from the run folder"


def test_a_round_that_a_crash_takes_back_is_in_no_sink(tmp_path):
    sink = Kept()
    log = RunLog(tmp_path / "run", method="convert", config={"rounds": 9}, sinks=[sink])
    log.begin()
    for t in (1, 2, 3):
        told = told_of(t)
        log.round(told.pop("report"), **told)
        if t < 3:
            log.tell_sinks()
    log.close()  # the process ended before the checkpoint of round 3
    assert len(Lines(log.folder.lines_path("convert", 0)).read()) == 3
    log = RunLog(tmp_path / "run", method="convert", config={"rounds": 9}, sinks=[sink])
    log.begin(2)
    told = told_of(3, slow_every=2)
    again = log.round(told.pop("report"), **told)
    log.finish()
    assert sink.steps == [1, 2, 3]
    assert sink.rounds[2][1]["arrivals/all"] == again.arrivals


def test_sinks_need_a_folder_and_names_that_are_known(tmp_path):
    with pytest.raises(ConfigError, match="need a `folder`"):
        strategy(None, sinks=["tensorboard"])
    with pytest.raises(ConfigError, match="tensorboard"):
        strategy(tmp_path, sinks=["tensorbord"])
    assert not (tmp_path / "run").exists()


def test_tensorboard_of_a_server(tmp_path):
    folder = write_logged_run(tmp_path / "run", rounds=14, sinks=["tensorboard"])
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder / "tensorboard" / "convert" / "seed-0"))
    found.Reload()
    steps = [event.step for event in found.Scalars("nodes/longest_work")]
    assert steps == list(range(1, 15))
    assert [e.step for e in found.Scalars("refused/not_finite")] == [13, 14]
