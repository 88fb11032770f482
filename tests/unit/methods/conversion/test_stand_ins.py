"""Stand-ins: who is planned for and checked, and what becomes of a plan."""

import dataclasses
import math

import pytest
import torch

import unstale as us
from unstale.methods.conversion import StandIn, stand_ins
from unstale.methods.conversion.stand_ins import plan

CHECKED = StandIn(checked=True)


def three(*values):
    return {"w": torch.tensor(values, dtype=torch.float64)}


def entry(version=4, **more):
    """What is known of a client: a surrogate, and the update that it was fitted to."""
    known = {"version": version, "seen": version, "count": 1, "num_examples": 10, "norm": 1.0}
    return {**known, "x": torch.zeros(2, 1), "y_logits": torch.zeros(2, 2), **more}


def own(*values, base=9):
    return us.Update("a", base, three(*values), 10)


def view(version, absent=(), history=None):
    params = three(1.0, 1.0, 1.0)
    past = {} if history is None else history
    rng = torch.Generator().manual_seed(0)
    return us.ServerView(version, params, past.get, us.LocalSpec(), rng, absent=tuple(absent))


# --- the plan ----------------------------------------------------------------------------


def test_absent_clients_with_a_weight_are_planned_for():
    known = {"a": entry(), "b": entry(checks=[[1, 0.0]]), "c": entry(), "d": entry(version=1)}
    made = plan([], known, view(10, absent=["a", "b", "d", "e"]), StandIn(max_age=6))
    assert list(made.shares) == []
    made = plan(
        [], {**known, "b": known["a"]}, view(10, absent=["a", "b", "d"]), StandIn(max_age=6)
    )
    assert list(made.shares) == ["a", "b"]
    assert bool(made)
    assert not plan([], known, view(10), CHECKED)


def test_only_a_newer_own_update_of_one_that_was_stood_in_for_is_checked():
    weights = three(5.0, 5.0, 5.0)
    known = {"a": entry(version=4, stood_in=2)}

    def checks(update, clients=known, history=None):
        past = {6: weights} if history is None else history
        return plan([update], clients, view(10, history=past), CHECKED).checks

    newer = own(1.0, 0.0, 0.0, base=6)
    (check,) = checks(newer)
    assert check.update is newer
    assert check.base is weights
    assert (check.made_from, check.is_newest) == (4, True)
    (fresh,) = checks(own(1.0, 0.0, 0.0, base=10))
    assert fresh.base["w"].tolist() == [1.0, 1.0, 1.0], "of a fresh one, the weights of today"
    assert checks(own(1.0, 0.0, 0.0, base=4), history={4: weights}) == []
    assert checks(newer, history={}) == [], "its base version is gone"
    assert checks(newer, {"a": entry(version=4)}) == [], "nobody stood in"
    assert checks(newer, {"a": entry(version=4, stood_in=0)}) == []
    assert checks(newer, {}) == []
    bare = {k: v for k, v in known["a"].items() if k not in ("x", "y_logits")}
    assert checks(newer, {"a": bare}) == []
    earlier = {"version": 1, "num_examples": 4, "x": torch.ones(2, 1), "y_logits": torch.ones(2, 2)}
    both = checks(newer, {"a": {**known["a"], "before": earlier}})
    assert [(c.made_from, c.is_newest) for c in both] == [(1, False), (4, True)]
    assert both[0].surrogate.x is earlier["x"]
    made_up = us.Update("a", 6, newer.delta, 10, stand_in=True)
    assert checks(made_up) == [], "another part of a chain made it"


# --- what becomes of it ------------------------------------------------------------------


def conclude(change, max_growth=10.0, share=0.75, **known):
    clients = {"a": entry(version=4, norm=2.0, **known)}
    made = stand_ins.Plan({"a": share}, [])
    return clients, stand_ins.conclude(made, [change], clients, view(10), max_growth)


def test_a_stand_in_is_a_marked_update_from_today():
    clients, done = conclude(three(3.0, 0.0, 4.0), stood_in=1)
    (update,) = done.updates
    assert (update.client_id, update.base_version, update.num_examples) == ("a", 10, 10)
    assert (update.weight, update.stand_in) == (0.75, True)
    assert update.delta["w"].tolist() == [3.0, 0.0, 4.0]
    (note,) = done.notes
    assert (note.kind, note.client_id, note.base_version) == ("stood_in", "a", 10)
    assert note.detail == {"age": 6, "weight": 0.75}
    assert done.clients["a"]["stood_in"] == 2
    assert clients["a"]["stood_in"] == 1


def test_one_that_earlier_ones_show_to_be_too_small_is_scaled_up():
    _, done = conclude(three(3.0, 0.0, 4.0), share=1.5)
    (update,), (note,) = done.updates, done.notes
    assert update.delta["w"].tolist() == [4.5, 0.0, 6.0]
    assert (update.weight, note.detail["weight"], note.detail["scale"]) == (1.0, 1.0, 1.5)
    _, done = conclude(three(3.0, 0.0, 4.0), max_growth=3.7, share=1.5)
    assert done.updates == [], "as it would be used it is too large"


def test_own_updates_are_compared_with_both_surrogates_and_only_the_newest_counts_for_calibration():
    before = {"version": 1, "num_examples": 4, "x": torch.ones(2, 1), "y_logits": torch.ones(2, 2)}
    clients = {"a": entry(version=4, stood_in=2, before=before)}
    made = plan(
        [own(2.0, 0.0, 0.0, base=6)], clients, view(10, history={6: three(0, 0, 0)}), CHECKED
    )
    changes = [three(4.0, 0.0, 0.0), three(1.0, 0.0, 0.0)]
    done = stand_ins.conclude(made, changes, clients, view(10), 10.0)
    assert done.clients["a"]["checks"] == [[5, 0.5], [2, 2.0]]
    assert done.clients["a"]["stood_in"] == 0
    assert [note.detail["age"] for note in done.notes] == [5, 2]
    ((_, change),) = made.newest_checked(changes)
    assert change is changes[1]


def test_a_check_trains_each_surrogate_by_the_recipe_that_it_has_stood_in_with():
    before = {"version": 1, "num_examples": 4, "x": torch.ones(2, 1), "y_logits": torch.ones(2, 2)}
    clients = {"a": entry(version=4, stood_in=2, before=before)}  # of ten examples
    now = dataclasses.replace(
        view(10, history={6: three(0, 0, 0)}), local=us.LocalSpec(epochs=2, batch_size=2)
    )
    made = plan([own(2.0, 0.0, 0.0, base=6)], clients, now, CHECKED)
    steps = [each.local.steps for each in made.trainings(clients, now, us.Inversion())]
    assert steps == [4, 10]


@pytest.mark.parametrize(
    ("change", "max_growth", "used"),
    [
        ((3.0, 0.0, 4.0), 2.5, True),
        ((3.0, 0.0, 4.0), 2.49, False),
        ((12.0, 0.0, 5.0), 0.0, True),
        ((12.0, 0.0, 5.0), 5.0, False),
        ((3e6, 0.0, 4.0), 0.0, False),  # beside weights of about 2
        ((0.0, 0.0, 0.0), 10.0, False),
        ((math.nan, 0.0, 0.0), 10.0, False),
        ((math.nan, 0.0, 0.0), 0.0, False),
        ((math.inf, 0.0, 0.0), 0.0, False),
    ],
)
def test_an_absurd_one_is_not_used(change, max_growth, used):
    """The norm is bounded by `max_growth` times that of the client's update, here 2."""
    clients, done = conclude(three(*change), max_growth)
    assert len(done.updates) == len(done.notes) == used
    assert done.clients["a"].get("stood_in", 0) == used
    assert clients["a"].get("stood_in", 0) == 0
