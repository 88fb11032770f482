"""The trust in stand-ins: share and weight by their formulas, on tensors of three elements."""

import math

import pytest
import torch

import unstale as us
from unstale.methods.conversion import StandIn, stand_ins
from unstale.methods.conversion.stand_ins import MOST_CHECKS, checked, plan, weight_of

ALWAYS = StandIn(checked=False)
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


# --- the share ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "truth", "share", "error", "l1"),
    [
        ((1.0, 0.0, 0.0), (1.0, 0.0, 0.0), 1.0, 0.0, 0.0),
        ((2.0, 0.0, 0.0), (1.0, 0.0, 0.0), 0.5, 0.0, 1.0),
        ((1.0, 1.0, 0.0), (1.0, 0.0, 0.0), 0.5, 1 - math.sqrt(0.5), 1.0),
        ((1.0, 2.0, 2.0), (0.0, 3.0, 0.0), 6 / 9, 1 - 6 / 9, 4 / 3),
        ((1.0, 0.0, 0.0), (0.0, 5.0, 0.0), 0.0, 1.0, 6 / 5),
        # Outside of 0 to 1 it is cut: too small a stand-in is no reason to make it larger, and
        # one that points back is not used backwards.
        ((1.0, 0.0, 0.0), (4.0, 0.0, 0.0), 1.0, 0.0, 3 / 4),
        ((1.0, 0.0, 0.0), (-1.0, 0.0, 0.0), 0.0, 2.0, 2.0),
    ],
)
def test_the_share_is_that_of_least_squares(made, truth, share, error, l1):
    after, notes = checked(entry(version=4), own(*truth, base=9), three(*made))
    assert after["checks"] == [[5, pytest.approx(share, abs=1e-12)]]
    (note,) = notes
    assert (note.kind, note.client_id, note.base_version) == ("checked", "a", 9)
    assert note.detail == {
        "age": 5,
        "error": pytest.approx(error, abs=1e-6),
        "l1": pytest.approx(l1, abs=1e-6),
        "share": pytest.approx(share, abs=1e-12),
    }


def test_a_stand_in_that_is_nothing_has_no_share():
    after, (note,) = checked(entry(), own(1.0, 0.0, 0.0), three(0.0, 0.0, 0.0))
    assert after["checks"] == [[5, 0.0]]
    assert note.detail["share"] == 0.0


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_training_that_diverged_is_no_check(wrong):
    before = entry(checks=[[2, 0.5]], stood_in=3)
    after, notes = checked(before, own(1.0, 0.0, 0.0), three(wrong, 1.0, 1.0))
    assert list(notes) == []
    assert (after["checks"], after["stood_in"]) == ([[2, 0.5]], 0)


def test_the_last_checks_are_kept_and_what_was_known_stays():
    found = entry(stood_in=3)
    for base in range(5, 5 + MOST_CHECKS + 2):
        before = dict(found)
        found, _ = checked(found, own(1.0, 0.0, 0.0, base=base), three(1.0, 0.0, 0.0))
        assert before == {**before}, "the entry before is left alone"
    assert [age for age, _ in found["checks"]] == list(range(3, 3 + MOST_CHECKS))
    assert found["stood_in"] == 0
    assert found["version"] == 4


# --- the weight --------------------------------------------------------------------------


def weight(entries, client="a", version=10, settings=CHECKED):
    return weight_of(client, entries, version, settings)


def test_the_weight_falls_with_age_as_the_share_did():
    """1 − (1 − c)·a'/a: found at age 5 with share 0.8, so 0.04 for each version of age."""
    known = {"a": entry(version=4, checks=[[5, 0.8]])}
    assert weight(known, version=4) == 1.0
    assert weight(known, version=9) == pytest.approx(0.8)
    assert weight(known, version=14) == pytest.approx(0.6)
    assert weight(known, version=28) == pytest.approx(0.04)
    assert weight(known, version=30) == 0.0
    assert weight(known, version=90) == 0.0


def test_several_checks_are_one_line_by_least_squares():
    """The line through 1 at age 0 that is nearest to them: Σ a(1 − c) / Σ a²."""
    known = {"a": entry(version=0, checks=[[2, 0.5], [4, 0.9]])}
    rate = (2 * 0.5 + 4 * 0.1) / (4 + 16)
    assert weight(known, version=3) == pytest.approx(1 - 3 * rate)


def test_without_checks_a_client_is_trusted_as_others_are():
    known = {"a": entry(version=0), "b": entry(checks=[[2, 0.5]]), "c": entry(checks=[[4, 0.9]])}
    rate = (2 * 0.5 + 4 * 0.1) / (4 + 16)
    assert weight(known, version=3) == pytest.approx(1 - 3 * rate)
    own_ones = {**known, "a": entry(version=0, checks=[[5, 1.0]])}
    assert weight(own_ones, version=3) == 1.0
    assert weight({"a": entry(version=0)}, version=900) == 1.0, "nothing speaks against it"


def test_unchecked_all_weigh_the_same():
    known = {"a": entry(version=4, checks=[[5, 0.0]])}
    assert weight(known, version=9) == 0.0
    assert weight(known, version=9, settings=ALWAYS) == 1.0


def test_who_is_not_stood_in_for():
    known = {"a": entry(version=4), "bare": {"version": 4, "seen": 4, "count": 1}}
    assert weight(known, "nobody") == 0.0
    assert weight(known, "bare") == 0.0, "its surrogate was given up"
    assert weight(known, settings=StandIn(enabled=False)) == 0.0
    for settings in (StandIn(max_age=6), StandIn(max_age=6, checked=False)):
        assert weight(known, version=10, settings=settings) == 1.0
        assert weight(known, version=11, settings=settings) == 0.0


# --- the plan ----------------------------------------------------------------------------


def test_absent_clients_with_a_weight_are_planned_for():
    known = {"a": entry(), "b": entry(checks=[[1, 0.0]]), "c": entry(), "d": entry(version=1)}
    made = plan([], known, view(10, absent=["a", "b", "d", "e"]), StandIn(max_age=6))
    assert list(made.weights) == []
    made = plan(
        [], {**known, "b": known["a"]}, view(10, absent=["a", "b", "d"]), StandIn(max_age=6)
    )
    assert list(made.weights) == ["a", "b"]
    assert bool(made)
    assert not plan([], known, view(10), CHECKED)


def test_only_a_newer_own_update_of_one_that_was_stood_in_for_is_checked():
    weights = three(5.0, 5.0, 5.0)
    known = {"a": entry(version=4, stood_in=2)}

    def checks(update, clients=known, history=None):
        past = {6: weights} if history is None else history
        return plan([update], clients, view(10, history=past), CHECKED).checks

    newer = own(1.0, 0.0, 0.0, base=6)
    ((update, base),) = checks(newer)
    assert update is newer
    assert base is weights
    ((_, today),) = checks(own(1.0, 0.0, 0.0, base=10))
    assert today["w"].tolist() == [1.0, 1.0, 1.0], "of a fresh one, the weights of today"
    assert checks(own(1.0, 0.0, 0.0, base=4), history={4: weights}) == []
    assert checks(newer, history={}) == [], "its base version is gone"
    assert checks(newer, {"a": entry(version=4)}) == [], "nobody stood in"
    assert checks(newer, {"a": entry(version=4, stood_in=0)}) == []
    assert checks(newer, {}) == []
    bare = {k: v for k, v in known["a"].items() if k not in ("x", "y_logits")}
    assert checks(newer, {"a": bare}) == []
    made_up = us.Update("a", 6, newer.delta, 10, stand_in=True)
    assert checks(made_up) == [], "another part of a chain made it"


# --- what becomes of it ------------------------------------------------------------------


def conclude(change, max_growth=10.0, **known):
    clients = {"a": entry(version=4, norm=2.0, **known)}
    made = stand_ins.Plan({"a": 0.75}, [])
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
