"""Back to stale updates when late truth says that estimates are worse."""

import dataclasses

import pytest
import torch

import unstale as us
from unstale.errors import ConfigError, UnknownNameError
from unstale.methods import Stateless
from unstale.updates import Note


@dataclasses.dataclass(frozen=True, slots=True)
class Says(Stateless):
    """Estimates the same vector whatever comes."""

    estimate: tuple

    def apply(self, updates, state, view):
        found, notes = [], []
        for u in updates:
            if u.staleness(view.version):
                delta = {"w": torch.tensor(self.estimate, dtype=torch.float64)}
                u = dataclasses.replace(u, delta=delta)
                notes.append(Note("converted", u.client_id, u.base_version))
            found.append(u)
        return us.Outcome(tuple(found), state, tuple(notes))


class Run:
    """Steps of one compensator; `at(version, (client, base, delta), …)` is one round."""

    def __init__(self, method):
        self.method, self.state = method, method.init()

    def at(self, version, *arrivals, kept=None):
        weights = {"w": torch.zeros(3, dtype=torch.float64)}
        updates = [
            us.Update(c, b, {"w": torch.tensor(d, dtype=torch.float64)}, 10)
            for c, b, d in arrivals
        ]  # fmt: skip
        view = us.ServerView(
            version,
            weights,
            lambda v: weights,
            us.LocalSpec(),
            torch.Generator(),
            kept_versions=frozenset(range(version + 1) if kept is None else kept),
        )
        outcome = self.method.apply(updates, self.state, view)
        self.state = outcome.state
        self.notes = {}
        for note in outcome.notes:
            self.notes.setdefault((note.kind, note.client_id), []).append(note)
        return [u.delta["w"].tolist() for u in outcome.updates]


X, Y, NEAR_X = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (1.0, 0.1, 0.0)


def switched_run(window=0.1, **rest):
    """A client whose estimate (y) was worse than its stale update (x) at version 100."""
    run = Run(us.switch_back(Says(Y), window=window, patience=1, **rest))
    assert run.at(100, ("s", 60, X)) == [list(Y)]
    return run


def test_gamma_falls_linearly_over_the_window():
    run = switched_run()
    assert run.at(140, ("s", 100, NEAR_X)) == [list(Y)], "γ is 1 at the switching point"
    (note,) = run.notes[("measured", "s")]
    assert note.detail["estimate_error"] > 0.9
    assert note.detail["stale_error"] < 0.01
    truth = sum(map(abs, NEAR_X))
    for found, sent in (("estimate_l1", Y), ("stale_l1", X)):
        apart = sum(abs(a - b) for a, b in zip(sent, NEAR_X, strict=True))
        assert note.detail[found] == pytest.approx(apart / truth)
    assert note.detail["version"] == 100
    assert ("switched", "s") not in run.notes
    # The window is 10 % of 140: 14 rounds.
    for version, gamma in ((141, 13 / 14), (147, 0.5), (153, 1 / 14), (154, 0.0), (300, 0.0)):
        (found,) = run.at(version, ("s", version - 40, X))
        assert found == pytest.approx([1 - gamma, gamma, 0])
        (note,) = run.notes[("switched", "s")]
        assert note.detail["gamma"] == pytest.approx(gamma)
        assert (("converted", "s") in run.notes) == (gamma > 0), "then it costs nothing any more"


def test_others_are_converted_all_the_same():
    run = switched_run()
    run.at(140, ("s", 100, NEAR_X))
    assert run.at(200, ("a", 160, X), ("s", 150, X)) == [list(Y), list(X)]
    assert ("converted", "a") in run.notes


def test_a_better_estimate_goes_on():
    run = Run(us.switch_back(Says(Y), patience=1))
    run.at(100, ("s", 60, X))
    run.at(140, ("s", 100, (0.1, 1.0, 0.0)))
    (note,) = run.notes[("measured", "s")]
    assert note.detail["estimate_error"] < note.detail["stale_error"]
    assert run.at(180, ("s", 140, X)) == [list(Y)]
    assert ("switched", "s") not in run.notes


def test_a_window_of_zero_switches_at_once():
    run = switched_run(window=0)
    assert run.at(140, ("s", 100, NEAR_X)) == [list(NEAR_X)]


def test_a_forced_switching_point_overrides_comparisons():
    """At version 140 a comparison would switch; all clients do at 200, over 10 % of 200."""
    run = switched_run(at=200)
    assert run.at(140, ("s", 100, NEAR_X)) == [list(Y)]
    (note,) = run.notes[("measured", "s")]
    assert note.detail["estimate_error"] > note.detail["stale_error"]
    assert run.at(199, ("s", 159, X), ("new", 180, X)) == [list(Y)] * 2
    assert not any(kind == "switched" for kind, _ in run.notes)
    for version, gamma in ((200, 1.0), (205, 0.75), (219, 0.05), (220, 0.0), (900, 0.0)):
        updates = [("s", version - 40, X), ("new", version - 1, X)]
        for found in run.at(version, *updates):
            assert found == pytest.approx([1 - gamma, gamma, 0])
        assert (("converted", "new") in run.notes) == (gamma > 0)
        assert ("measured", "s") not in run.notes, "nothing is left to decide"
    assert all(not entry["estimates"] for entry in run.state["clients"].values())


def test_forced_at_once_nothing_is_ever_converted():
    run = Run(us.switch_back(Says(Y), at=0))
    assert run.at(0, ("a", 0, X)) == [list(X)]
    assert run.at(3, ("a", 1, X)) == [list(X)]
    assert run.notes[("switched", "a")][0].detail["gamma"] == 0.0


@pytest.mark.parametrize("at", [-1, 1.5, True, "155"])
def test_refuses_a_switching_point_that_is_no_version(at):
    with pytest.raises(ConfigError, match="`at` should be a version"):
        us.Switching(at=at)


def test_patience_asks_for_findings_in_a_row():
    run = Run(us.switch_back(Says(Y), patience=2))
    sent = {40: NEAR_X, 80: NEAR_X, 120: (0.1, 1.0, 0.0), 160: NEAR_X, 200: NEAR_X}
    counts = {}
    for version, delta in sent.items():  # each the truth for the estimate 40 versions before
        run.at(version, ("s", version - 40, delta))
        counts[version] = run.state["clients"]["s"]["worse"]
    assert counts == {40: 0, 80: 1, 120: 0, 160: 1, 200: 2}
    assert run.state["clients"]["s"]["switched"] == 200
    assert run.state["clients"]["s"]["estimates"] == []


def test_only_the_clients_own_update_is_its_truth():
    run = switched_run()
    run.at(140, ("t", 100, NEAR_X), ("s", 99, NEAR_X))
    assert not any(kind == "measured" for kind, _ in run.notes)


def test_the_next_work_of_a_client_that_works_on_one_model_serves_as_truth():
    """Its update came at 100, so it starts again from 101: nobody ever trains from 100."""
    run = switched_run()
    run.at(141, ("s", 101, NEAR_X), kept={101, 141})
    assert run.notes[("measured", "s")][0].base_version == 101
    strict = switched_run(match_window=0)
    strict.at(141, ("s", 101, NEAR_X))
    assert ("measured", "s") not in strict.notes
    far = switched_run()  # staleness 40: at most 4 versions later
    far.at(145, ("s", 105, NEAR_X))
    assert ("measured", "s") not in far.notes
    near = switched_run()
    near.at(144, ("s", 104, NEAR_X))
    assert ("measured", "s") in near.notes


def test_memory_is_bounded():
    run = Run(us.switch_back(Says(Y), keep=2))
    for version in range(50, 60):
        run.at(version, ("s", version - 20, X))
    assert [e["version"] for e in run.state["clients"]["s"]["estimates"]] == [50, 51]
    # What can no longer come is forgotten, and the next estimates take its place.
    run.at(80, ("s", 60, X))
    assert [e["version"] for e in run.state["clients"]["s"]["estimates"]] == [80]
    run.at(90, kept={90})
    assert run.state["clients"] == {}


def test_an_estimate_waits_while_somebody_may_work_on_its_version():
    run = switched_run()
    run.at(130, kept={100, 130})
    assert [e["version"] for e in run.state["clients"]["s"]["estimates"]] == [100]
    run.at(131, kept={103, 131})
    assert run.state["clients"]["s"]["estimates"], "within the match_window"
    run.at(132, kept={105, 132})
    assert run.state["clients"] == {}


def test_what_the_inner_one_left_alone_is_neither_mixed_nor_remembered():
    run = Run(us.switch_back(us.Identity()))
    assert run.at(100, ("s", 60, X)) == [list(X)]
    assert run.state["clients"] == {}


def test_of_two_updates_of_one_round_the_newest_is_compared():
    run = Run(us.switch_back(Says(Y)))
    run.at(100, ("s", 60, X), ("s", 70, NEAR_X))
    (waiting,) = run.state["clients"]["s"]["estimates"]
    assert waiting["stale"]["w"].tolist() == list(NEAR_X)


@pytest.mark.parametrize(("name", "switches"), [("cosine", False), ("l2", True)])
def test_the_disparity_is_chosen_by_name(name, switches):
    """A long estimate in about the right direction: good by angle, bad by distance."""
    run = Run(us.switch_back(Says((9.0, 0.0, 0.0)), disparity=name, patience=1))
    run.at(100, ("s", 60, (1.0, 1.0, 0.0)))
    run.at(140, ("s", 100, X))
    assert (run.state["clients"]["s"]["switched"] is not None) == switches


def test_wrong_settings_are_refused():
    for wrong in ({"window": -0.1}, {"patience": 0}, {"keep": 0}, {"match_window": float("inf")}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            us.switch_back(us.Identity(), **wrong)
    with pytest.raises(UnknownNameError, match="cosine"):
        us.switch_back(us.Identity(), disparity="cosin")
    with pytest.raises(ConfigError, match="compensator"):
        us.switch_back("convert")
