"""Fits made ahead: the same numbers as in the step, and only where they are of use."""

import dataclasses

import pytest
import torch
from late_world import INPUTS, changed, converting

import unstale as us
from unstale.inversion import Fit, convert_many
from unstale.methods import Convert, SwitchBack
from unstale.methods.conversion import Switching, convert_all
from unstale.methods.conversion.prefit import FitJob, FitsSurrogates, compute_fits, fit_job_of
from unstale.updates import PrefitResult

FEW = converting(sparsity=0, iterations=6, warm_iterations=3, max_loss=10.0)
OWN = {f.name: getattr(FEW, f.name) for f in dataclasses.fields(FEW)}


def ahead(compensator, update, state, view):
    """Fit an update ahead and return the result as the step sees it."""
    asked = fit_job_of(compensator, update, state, view)
    (fit,) = compute_fits(view.tools.model, [asked])
    made = PrefitResult(asked.request, fit, view.version)
    return {update.key: made}


def told(outcome):
    """Everything but seconds."""
    notes = [
        (n.kind, n.client_id, n.base_version, {k: v for k, v in n.detail.items() if k != "seconds"})
        for n in outcome.notes
    ]
    return notes, [(u.client_id, u.base_version, u.weight) for u in outcome.updates]


def assert_same_tree(one, other):
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same_tree(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same_tree(a, b)
    elif isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    else:
        assert one == other


@pytest.mark.parametrize(
    "method",
    [
        FEW,
        changed(FEW, history=3, residual=False),
        Convert(**OWN),
        us.chain(us.Drop(max_staleness=50), us.PolynomialWeight(), us.switch_back(FEW)),
    ],
    ids=["convert", "history", "whole", "chain"],
)
def test_it_makes_no_difference_when_the_fit_was_made(world, method):
    state = method.init()
    for base, now in ((1, 6), (3, 8), (5, 10)):  # cold, then warm
        stale, view = world.update("s", base), world.view(now)
        fresh = [world.update("f", now), world.update("g", now)]
        prefits = ahead(method, stale, state, view)
        plain = method.apply([*fresh, stale], state, view)
        used = method.apply([*fresh, stale], state, world.view(now, prefits=prefits))
        assert told(plain) == told(used)
        assert any(note.kind == "converted" for note in plain.notes)
        for one, other in zip(plain.updates, used.updates, strict=True):
            assert_same_tree(dict(one.delta), dict(other.delta))
        assert_same_tree(plain.state, used.state)
        state = plain.state


def test_the_fit_is_not_made_again_and_the_estimate_is_for_the_round_it_joins(world, monkeypatch):
    stale = world.update("s", 2)
    prefits = ahead(FEW, stale, FEW.init(), world.view(7))
    request = prefits["s", 2].request
    rest = {"local": world.view(7).local, "inputs": INPUTS, "settings": FEW.inversion}
    wanted = convert_many(world.model, [request], current=world.weights[10], **rest)[0]

    def none_left(requests, *_):
        assert not requests, "again"
        return []

    monkeypatch.setattr(convert_all, "fit_parallel", none_left)
    outcome = FEW.apply([stale], FEW.init(), world.view(10, prefits=prefits))
    assert_same_tree(dict(outcome.updates[0].delta), dict(wanted.delta))
    assert outcome.updates[0].staleness(10) == 8
    assert outcome.state["clients"]["s"]["seen"] == 10


def test_some_ahead_and_some_in_the_step(world):
    settings = changed(FEW, max_conversions=1)
    s, t, u = world.update("s", 3), world.update("t", 2), world.update("u", 4)
    prefits = ahead(settings, s, settings.init(), world.view(9))
    outcome = settings.apply([s, t, u], settings.init(), world.view(9, prefits=prefits))
    assert [n.kind for n in outcome.notes] == ["converted", "converted", "fallback"]
    assert "used up" in outcome.notes[2].detail["reason"], "what was made ahead costs nothing"
    assert sorted(settings.surrogates(outcome.state)) == ["s", "t"]
    assert sorted(outcome.state["clients"]) == ["s", "t", "u"], "of the third its update is known"


def test_a_base_that_has_gone_meanwhile_does_not_matter(world):
    s = world.update("s", 3)
    prefits = ahead(FEW, s, FEW.init(), world.view(9))
    gone = world.view(10, prefits=prefits, history={10: world.weights[10]}.get)
    assert [n.kind for n in FEW.apply([s], FEW.init(), gone).notes] == ["converted"]


def test_a_fit_that_failed_leaves_the_update_and_says_why(world):
    first = FEW.apply([world.update("s", 1)], FEW.init(), world.view(8))
    s = world.update("s", 3)
    asked = FEW.fit_job(s, first.state, world.view(9))
    failed = Fit(None, float("nan"), (), 0.0, reason="the workers went home")
    view = world.view(9, prefits={("s", 3): PrefitResult(asked.request, failed, 9)})
    outcome = FEW.apply([s], first.state, view)
    assert outcome.updates[0] is s
    assert outcome.notes[0].kind == "fallback"
    assert outcome.notes[0].detail["reason"] == "the workers went home"
    entry = outcome.state["clients"]["s"]
    assert entry["x"] is first.state["clients"]["s"]["x"], "its surrogate is as good as before"
    assert [past["version"] for past in entry["past"]] == [1, 3]


def test_a_fit_for_another_delta_is_not_used(world):
    s = world.update("s", 3)
    prefits = ahead(FEW, s, FEW.init(), world.view(9))
    again = dataclasses.replace(s, delta={n: 2 * d for n, d in s.delta.items()})
    plain = FEW.apply([again], FEW.init(), world.view(9))
    used = FEW.apply([again], FEW.init(), world.view(9, prefits=prefits))
    assert told(plain) == told(used)
    assert_same_tree(dict(plain.updates[0].delta), dict(used.updates[0].delta))


def test_nothing_is_fitted_where_nothing_can_be(world):
    s = world.update("s", 3)
    for view in (
        world.view(3),
        world.view(9, model=None),
        world.view(9, inputs=None),
        world.view(9, history={}.get),
    ):
        assert FEW.fit_job(s, FEW.init(), view) is None
    assert isinstance(FEW.fit_job(s, FEW.init(), world.view(9)), FitJob)
    for plain in (us.FirstOrder(), us.only_unique(us.FirstOrder()), us.switch_back(us.Identity())):
        assert fit_job_of(plain, s, plain.init(), world.view(9)) is None
    assert not isinstance(us.FirstOrder(), FitsSurrogates)


def test_only_what_is_unique_is_fitted(world):
    method = us.only_unique(FEW, threshold=2.0)
    state = method.apply(
        [world.update("f", 3), world.update("g", 3)], method.init(), world.view(3)
    ).state
    assert fit_job_of(method, world.update("s", 3), state, world.view(9)) is not None
    common = dataclasses.replace(world.update("f", 3), client_id="h")
    assert fit_job_of(method, common, state, world.view(9)) is None
    keeps = us.only_unique(FEW, unknown="keep")
    assert fit_job_of(keeps, world.update("s", 2), state, world.view(9)) is None
    assert fit_job_of(method, world.update("s", 2), state, world.view(9)) is not None


def test_nothing_for_a_client_that_has_switched_for_good(world):
    method = us.switch_back(FEW, window=0.5)
    entry = {"estimates": [], "worse": 2, "switched": 4, "newest": 1}
    state = {**method.init(), "clients": {"s": entry}}
    s, t = world.update("s", 3), world.update("t", 3)
    assert fit_job_of(method, s, state, world.view(5)) is not None, "γ is 1/2"
    assert fit_job_of(method, s, state, world.view(6)) is None
    assert fit_job_of(method, t, state, world.view(6)) is not None


def test_a_chain_fits_what_reaches_the_part_unchanged(world):
    s, view = world.update("s", 3), world.view(9)
    for parts, wanted in (
        ((us.Drop(5), FEW), False),
        ((us.Drop(6), FEW, us.FirstOrder()), True),
        ((us.FirstOrder(), FEW), False),
        ((us.FirstOrder(),), False),
        ((), False),
    ):
        method = us.chain(*parts)
        assert (fit_job_of(method, s, method.init(), view) is not None) == wanted


def test_items_of_several_kinds_are_fitted_each_in_its_way(world):
    other = changed(FEW, iterations=2)
    asked = [
        settings.fit_job(world.update(client, 3), FEW.init(), world.view(9))
        for settings, client in ((FEW, "s"), (other, "t"), (FEW, "u"))
    ]
    fits = compute_fits(world.model, asked)
    assert [len(fit.losses) for fit in fits] == [6, 2, 6]
    alone = compute_fits(world.model, asked[1:2])[0]
    assert torch.equal(alone.surrogate.x, fits[1].surrogate.x)


# --- switching back, where updates awaited their fit --------------------------------------------


def after_hold(world, since, now, base=0, match_window=0.5):
    """Return the switch's memory of an update that came at `since` and joined at `now`."""
    method = SwitchBack(FEW, Switching(patience=1, match_window=match_window))
    stale = world.update("s", base)
    prefits = {
        key: dataclasses.replace(made, since=since)
        for key, made in ahead(method, stale, method.init(), world.view(now)).items()
    }
    outcome = method.apply([stale], method.init(), world.view(now, prefits=prefits))
    return method, outcome.state


def test_work_that_began_while_the_update_awaited_its_fit_is_a_truth(world):
    method, state = after_hold(world, since=5, now=8)
    (item,) = state["clients"]["s"]["estimates"]
    assert (item["version"], item["first"], item["until"]) == (8, 5, 12)
    for base, measured in ((4, False), (5, True), (6, True), (8, True), (11, True)):
        outcome = method.apply([world.update("s", base)], state, world.view(12))
        found = [n for n in outcome.notes if n.kind == "measured"]
        assert len(found) == measured
        assert all(n.detail["version"] == 8 for n in found)
        left = outcome.state["clients"]["s"]["estimates"]
        assert [e["version"] for e in left if e["version"] == 8] == ([] if measured else [8])


def test_no_farther_back_than_the_match_window(world):
    _, state = after_hold(world, since=2, now=8, match_window=0.25)
    assert state["clients"]["s"]["estimates"][0]["first"] == 6
    for without in ({"match_window": 0.0}, {"match_window": 0.25, "since": 8}):
        _, state = after_hold(world, **{"since": 2, "now": 8, **without})
        assert "first" not in state["clients"]["s"]["estimates"][0]


def test_an_estimate_is_kept_while_such_work_goes_on(world):
    method, state = after_hold(world, since=5, now=8)
    for kept, remains in (({5, 14}, True), ({4, 14}, False)):
        outcome = method.apply([], state, world.view(12, version=14, kept_versions=frozenset(kept)))
        assert bool(outcome.state["clients"]) == remains
