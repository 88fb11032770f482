"""Sinks of a simulation: every round once, whatever happens to the run, and the same numbers."""

import pytest

from unstale.run_folder import Lines

PLACES = [(label, seed) for label in ("unweighted", "taylor") for seed in (0, 1)]

EVERY = {place: [1, 2, 3, 4, 5, 6, 7] for place in PLACES}


class Kept:
    """A sink that keeps what it gets, by method and seed, over several processes."""

    def __init__(self):
        self.rounds, self.summaries, self.ids = {}, {}, set()

    def open(self, run):
        self.ids.add(run.id)
        return KeptRun(self, (run.label, run.seed))


class KeptRun:
    def __init__(self, sink, place):
        self.sink, self.place = sink, place

    def write(self, round, scalars):
        self.sink.rounds.setdefault(self.place, []).append((round, scalars))

    def close(self, summary):
        self.sink.summaries.setdefault(self.place, []).append(summary)


def steps(sink):
    return {place: [t for t, _ in rounds] for place, rounds in sink.rounds.items()}


def numbers(folder):
    lines = {
        place: [
            {k: v for k, v in line.to_json().items() if k != "seconds"}
            for line in Lines(folder.lines_path(*place)).read()
        ]
        for place in PLACES
    }
    return folder.summary_path.read_bytes(), lines


def test_every_round_of_every_method_and_seed(run_tiny):
    sink = Kept()
    folder = run_tiny("a", sinks=[sink])
    assert steps(sink) == EVERY
    for place, rounds in sink.rounds.items():
        lines = Lines(folder.lines_path(*place)).read()
        assert [s["arrivals/all"] for _, s in rounds] == [line.arrivals for line in lines]
        (row,) = sink.summaries[place]
        summary = folder.read_json(folder.summary_path)["methods"][place[0]]
        of_seed = next(one for one in summary["per_seed"] if one["seed"] == place[1])
        assert row["summary/accuracy"] == of_seed["accuracy"]
        assert row["summary/affected_mean"] == of_seed["affected_mean"]
    assert len(sink.ids) == len(PLACES)


@pytest.mark.parametrize("stops", [(1,), (7,), (8,), (3, 5, 13, 14, 28)], ids=str)
def test_a_run_that_is_stopped_and_resumed_writes_no_round_twice(run_tiny, recorder, stops):
    sink = Kept()
    for stop in stops:
        with pytest.raises(KeyboardInterrupt):
            run_tiny("a", progress=recorder(stop), sinks=[sink], checkpoint_seconds=0.0)
    folder = run_tiny("a", sinks=[sink], checkpoint_seconds=0.0)
    assert steps(sink) == EVERY
    assert all(summaries[-1] is not None for summaries in sink.summaries.values())
    assert len(sink.ids) == len(PLACES)
    assert numbers(folder) == numbers(run_tiny("without"))


def test_a_sink_that_fails_changes_nothing(run_tiny, caplog):
    class Failing(Kept):
        def open(self, run):
            raise RuntimeError("server away")

    assert numbers(run_tiny("a", sinks=[Failing()])) == numbers(run_tiny("without"))
    assert [r.getMessage() for r in caplog.records if "server away" in r.getMessage()] != []
    assert len(caplog.records) == 1


def test_a_finished_run_is_handed_to_a_sink_that_comes_later(run_tiny):
    run_tiny("a")
    sink = Kept()
    run_tiny("a", sinks=[sink])
    assert steps(sink) == EVERY
    again = Kept()
    run_tiny("a", sinks=[again])
    assert again.rounds == {}


def test_the_tries_of_a_tuning_are_not_told(run_tiny, table):
    table["methods"] = [{"name": "first_order", "label": "taylor", "tune": {"lam": [0.1, 0.5]}}]
    table["tuning"] = {"seeds": [7]}
    sink = Kept()
    run_tiny("a", sinks=[sink], tune=True)
    assert set(sink.rounds) == {("taylor", 0), ("taylor", 1)}
