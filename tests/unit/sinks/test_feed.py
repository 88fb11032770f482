"""The feed with sinks of the user's own: order, resume, and sinks that fail."""

import logging
import sys
import threading

import pytest
from told_rounds import line

from unstale.errors import ConfigError, UnknownNameError
from unstale.run_folder.summary import figures
from unstale.sinks import Feed, as_sinks, summary_scalars


class Kept:
    """A sink that keeps what it gets, over several processes."""

    def __init__(self):
        self.opened, self.rounds, self.closed = [], [], []
        self.threads = set()

    def open(self, run):
        self.opened.append(run)
        return self

    def write(self, round, scalars):
        self.threads.add(threading.current_thread().name)
        self.rounds.append((round, scalars))

    def close(self, summary):
        self.closed.append(summary)


class Failing(Kept):
    """A sink that fails in one round."""

    def __init__(self, at):
        super().__init__()
        self.at = at

    def write(self, round, scalars):
        if round == self.at:
            raise OSError(28, "No space left on device")
        super().write(round, scalars)


def test_every_round_and_the_summary_in_order(folder, tell):
    sink = Kept()
    tell([sink], range(1, 9), finish=True)
    assert [t for t, _ in sink.rounds] == list(range(1, 9))
    assert sink.threads == {"unstale-sinks"}
    (run,) = sink.opened
    assert (run.experiment, run.label, run.seed, run.written) == ("two-sites", "convert", 0, 0)
    assert run.folder == folder.path.absolute()
    assert run.settings["method"] == {"name": "convert", "label": "convert", "stand_in": True}
    assert run.settings["local"] == {"lr": 0.1}
    assert run.settings["seed"] == 0
    assert not {"methods", "seeds"} & {*run.settings}
    wanted = figures([line(t) for t in range(1, 9)], 8, 0.8, 1)
    assert sink.closed == [summary_scalars(wanted)]
    assert sink.closed[0]["summary/accuracy"] == pytest.approx(0.75)
    # A code is told from its first round on, also where it is 0.
    codes = [scalars.get("refused/not_finite") for _, scalars in sink.rounds]
    assert codes == [None, None, None, 1.0, 0.0, 0.0, 0.0, 0.0]


def test_a_run_that_stops_is_closed_without_a_summary(tell):
    sink = Kept()
    tell([sink], range(1, 4))
    assert sink.closed == [None]


def test_a_resumed_run_goes_on_and_writes_no_round_twice(tell):
    sink = Kept()
    tell([sink], range(1, 6))
    # Killed after round 5, its checkpoint of round 3: all rounds are told again.
    tell([sink], range(1, 9), finish=True)
    assert [t for t, _ in sink.rounds] == list(range(1, 9))
    first, second = sink.opened
    assert first.id == second.id
    assert (first.written, second.written) == (0, 5)
    assert sink.rounds[5][1]["refused/not_finite"] == 0.0  # known from a round told before
    tell([sink], range(1, 9), finish=True)
    assert len(sink.opened) == 2, "what a sink has got whole is not opened again"


def test_a_sink_that_comes_later_gets_all_rounds(tell):
    early, late = Kept(), Failing(at=None)
    tell([early], range(1, 4))
    tell([early, late], range(1, 6))
    assert [t for t, _ in late.rounds] == [1, 2, 3, 4, 5]
    assert [t for t, _ in early.rounds] == [1, 2, 3, 4, 5]


def test_a_sink_that_knows_itself_what_it_has(tell):
    class Forgetful(Kept):
        written = 2

    sink = Forgetful()
    tell([sink], range(1, 6))
    assert [t for t, _ in sink.rounds] == [3, 4, 5]
    tell([sink], range(1, 9), finish=True)
    assert [t for t, _ in sink.rounds[3:]] == [3, 4, 5, 6, 7, 8]
    assert sink.rounds[3][1].get("refused/not_finite") is None
    assert sink.rounds[4][1]["refused/not_finite"] == 1.0


def test_what_was_killed_before_its_summary_is_whole_after(tell):
    class Empty(Kept):
        written = 0

    sink = Empty()
    tell([sink], range(1, 9))
    tell([sink], range(1, 9), finish=True)
    assert [t for t, _ in sink.rounds] == 2 * list(range(1, 9))
    assert sink.closed[1]["summary/accuracy"] == pytest.approx(0.75)


def test_lines_that_are_missing_are_no_reason_to_lose_the_last(tell):
    class Empty(Kept):
        written = 0

    sink = Empty()
    tell([sink], [1, 2, 6])
    tell([sink], [], finish=True)
    assert [t for t, _ in sink.rounds] == [1, 2, 6, 1, 2, 6]


def test_several_methods_and_two_sinks_of_one_class(folder, tell):
    one, two = Kept(), Kept()
    tell([one, two], range(1, 3))
    tell([one, two], range(1, 4), label="memory")
    assert [t for t, _ in one.rounds] == [t for t, _ in two.rounds] == [1, 2, 1, 2, 3]
    ids = {run.id for run in one.opened}
    assert len(ids) == 2
    assert [run.id for run in one.opened] == [run.id for run in two.opened]


def test_a_sink_that_fails_is_said_once_and_dropped(folder, tell, caplog):
    bad, good = Failing(at=3), Kept()
    tell([bad, good], range(1, 9), finish=True)
    assert [t for t, _ in bad.rounds] == [1, 2]
    assert bad.closed == []
    assert [t for t, _ in good.rounds] == list(range(1, 9))
    (said,) = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert said.startswith("The sink Failing failed and gets no more of this run: OSError: ")
    assert "No space left on device" in said
    assert str(folder.path) in said
    bad.at = None
    tell([bad, good], range(1, 9), finish=True)
    assert [t for t, _ in bad.rounds] == list(range(1, 9)), "a resume brings it up to date"


@pytest.mark.parametrize("fault", [RuntimeError("away"), SystemExit(3), ConfigError("not so")])
def test_whatever_opening_raises(tell, caplog, fault):
    class Closed(Kept):
        def open(self, run):
            raise fault

    good = Kept()
    tell([Closed(), good], range(1, 9), finish=True)
    assert len(good.rounds) == 8
    assert len(caplog.records) == 1


def test_a_sink_that_does_not_answer_is_not_waited_for(folder, caplog):
    answered = threading.Event()

    class Away(Kept):
        def open(self, run):
            answered.wait()
            return self

    feed = Feed([Away()], folder, patience=0.01)
    feed.tell("convert", 0, line(1))
    feed.close()
    assert "Away did not answer for 0.01 s" in caplog.text
    answered.set()


def test_how_long_it_is_waited_for_is_a_setting(folder, monkeypatch):
    monkeypatch.setenv("UNSTALE_SINK_SECONDS", "soon")
    with pytest.raises(ConfigError, match=r"`UNSTALE_SINK_SECONDS` should be .* Found 'soon'"):
        Feed([Kept()], folder)


def test_a_damaged_record_costs_only_repetitions(folder, tell):
    sink = Kept()
    tell([sink], [1, 2])
    folder.sinks_path("convert", 0).write_text('{"id": 3, "sinks": []}')
    tell([sink], [1, 2, 3])
    assert [t for t, _ in sink.rounds] == [1, 2, 1, 2, 3]


def test_without_sinks_nothing_happens(folder, tell):
    before = threading.active_count()
    tell([], range(1, 9), finish=True)
    assert threading.active_count() == before
    assert not (folder.path / "sinks").exists()


def test_sinks_by_name_by_class_and_as_objects():
    own = Kept()
    assert as_sinks(own) == as_sinks([own]) == [own]
    assert [type(s).__name__ for s in as_sinks(["tensorboard", "unstale.sinks.mlflow:MLflow"])] == [
        "TensorBoard",
        "MLflow",
    ]
    with pytest.raises(UnknownNameError, match="mlflow"):
        as_sinks("mflow")
    for wrong in (Kept, object(), 3):
        with pytest.raises(ConfigError, match="A sink should be one of tensorboard, mlflow, wandb"):
            as_sinks([wrong])
    with pytest.raises(ConfigError, match=r"package\.module:Class"):
        as_sinks("nowhere:Sink")


@pytest.mark.parametrize(
    ("name", "package"), [("tensorboard", "tensorboard"), ("mlflow", "mlflow"), ("wandb", "wandb")]
)
def test_a_library_that_is_not_installed_is_told_at_once(name, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"pip install 'unstale\[{name}\]'"):
        as_sinks([name])
