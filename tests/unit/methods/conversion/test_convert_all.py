"""Stale updates are converted, all of a round at once, and nothing makes that fail badly."""

import dataclasses
import math

import pytest
import torch
from late_world import INPUTS, changed, converting

import unstale as us
from unstale.errors import ConfigError
from unstale.methods import Convert
from unstale.methods.conversion import convert_all
from unstale.methods.conversion.prefit import surrogates_of
from unstale.params import norm, scale, zeros_like

WHOLE = converting(sparsity=0, iterations=120, warm_iterations=40)
FEW = converting(sparsity=0, iterations=4, warm_iterations=2, max_loss=10.0)


def same(one, other):
    return all(torch.equal(one[n], other[n]) for n in other)


def kinds(outcome):
    return [note.kind for note in outcome.notes]


def test_its_inversion_is_that_of_convert(world):
    assert isinstance(WHOLE, us.Compensator)
    stale = world.update("s", 2)
    found = us.convert(
        world.model,
        base=world.weights[2],
        current=world.weights[10],
        delta=stale.delta,
        local=us.LocalSpec(lr=0.5, momentum=0.5, steps=4),
        inputs=us.InputSpec((4,), 3, 0.0, 1.0),
        num_examples=12,
        settings=WHOLE.inversion,
    )
    assert isinstance(found, us.Conversion)
    assert found.ok
    converted = dataclasses.replace(stale, delta=found.delta)
    assert world.error(converted, 10) < world.error(stale, 10) / 2


def test_the_oracle_error_drops_and_fresh_updates_pass(world):
    fresh, s, t = world.update("f", 10), world.update("s", 2), world.update("t", 1)
    outcome = WHOLE.apply([fresh, s, t], WHOLE.init(), world.view(10))
    assert outcome.updates[0] is fresh
    assert kinds(outcome) == ["converted", "converted"]
    for before, after in zip((s, t), outcome.updates[1:], strict=True):
        assert (after.client_id, after.base_version) == (before.client_id, before.base_version)
        assert world.error(before, 10) > 0.05, "the world should hurt"
        assert world.error(after, 10) < world.error(before, 10) / 2
    for note in outcome.notes:
        assert set(note.detail) == {"loss", "iterations", "seconds", "start", "curve"}
        assert note.detail["start"] == "cold"
        assert 0 < note.detail["iterations"] <= 120
    assert set(outcome.state["clients"]) == {"s", "t"}


def test_one_call_for_all_clients_of_a_round(world, monkeypatch):
    calls = []
    fit_parallel = convert_all.fit_parallel

    def spy(requests, *rest):
        calls.append(len(requests))
        return fit_parallel(requests, *rest)

    monkeypatch.setattr(convert_all, "fit_parallel", spy)
    FEW.apply(
        [world.update(c, b) for c, b in [("s", 1), ("s", 3), ("t", 4)]], FEW.init(), world.view(9)
    )
    assert calls == [3]


def test_a_warm_start_needs_fewer_iterations(world):
    settings = converting(sparsity=0, iterations=200, warm_iterations=200, tolerance=0.02)
    first = settings.apply([world.update("s", 4)], settings.init(), world.view(9))
    cold = settings.apply([world.update("s", 5)], settings.init(), world.view(10)).notes[0].detail
    warm = settings.apply([world.update("s", 5)], first.state, world.view(10)).notes[0].detail
    assert (cold["start"], warm["start"]) == ("cold", "warm")
    assert warm["iterations"] < cold["iterations"] / 2
    assert warm["loss"] < 1.5 * cold["loss"]
    for stands_in in (True, False):
        never = changed(settings, warm_start=False, enabled=stands_in, history=1)
        first = never.apply([world.update("s", 4)], never.init(), world.view(9))
        assert list(first.state["clients"]) == (["s"] if stands_in else []), "nobody needs it"
        again = never.apply([world.update("s", 5)], first.state, world.view(10))
        assert again.notes[0].detail["start"] == "cold"
        assert again.notes[0].detail["iterations"] == cold["iterations"]


def test_nobody_else_and_no_order_makes_a_difference(world):
    s, t = world.update("s", 2), world.update("t", 5)
    together = FEW.apply([s, t], FEW.init(), world.view(9))
    swapped = FEW.apply([t, s], FEW.init(), world.view(9))
    alone = FEW.apply([s], FEW.init(), world.view(9))
    assert same(together.updates[0].delta, swapped.updates[1].delta)
    assert same(together.updates[0].delta, alone.updates[0].delta)
    assert list(swapped.state["clients"]) == ["s", "t"]
    again = FEW.apply([s], FEW.init(), world.view(9))
    assert same(again.updates[0].delta, alone.updates[0].delta)
    other = FEW.apply([s], FEW.init(), world.view(9, rng=torch.Generator().manual_seed(9)))
    assert not same(other.updates[0].delta, alone.updates[0].delta)


def test_an_older_update_does_not_replace_what_a_newer_one_left(world):
    newer = FEW.apply([world.update("s", 6)], FEW.init(), world.view(9))
    older = FEW.apply([world.update("s", 3)], newer.state, world.view(10))
    assert kinds(older) == ["converted"]
    before, after = newer.state["clients"]["s"], older.state["clients"]["s"]
    assert after["version"] == 6
    assert after["x"] is before["x"]
    newest = FEW.apply([world.update("s", 7)], older.state, world.view(10))
    assert newest.state["clients"]["s"]["version"] == 7
    assert not torch.equal(newest.state["clients"]["s"]["x"], before["x"])


def test_two_updates_of_one_client_are_both_converted(world):
    updates = [world.update("s", 3), world.update("s", 6)]
    outcome = FEW.apply(updates, FEW.init(), world.view(9))
    assert kinds(outcome) == ["converted"] * 2
    assert outcome.state["clients"]["s"]["version"] == 6
    single = changed(FEW, history=1)
    outcome = single.apply(updates, single.init(), world.view(9))
    alone = single.apply(updates[1:], single.init(), world.view(9))
    assert torch.equal(outcome.state["clients"]["s"]["x"], alone.state["clients"]["s"]["x"])


def test_the_past_is_bounded_and_used(world, monkeypatch):
    seen = []
    fit_parallel = convert_all.fit_parallel

    def spy(requests, *rest):
        seen.append([[id(base) for base, _ in r.past] for r in requests])
        return fit_parallel(requests, *rest)

    monkeypatch.setattr(convert_all, "fit_parallel", spy)
    settings = changed(FEW, history=3)
    state = settings.init()
    for base in (1, 2, 4, 3):
        state = settings.apply([world.update("s", base)], state, world.view(9)).state
    assert [p["version"] for p in state["clients"]["s"]["past"]] == [3, 4]
    weights = {id(w): v for v, w in enumerate(world.weights)}
    count = [len(past) for (past,) in seen]
    assert count == [0, 1, 2, 2]
    # Of two in one round, each knows of the other.
    settings.apply([world.update("t", 5), world.update("t", 7)], settings.init(), world.view(9))
    assert [[weights[i] for i in past] for past in seen[-1]] == [[7], [5]]
    single = changed(FEW, history=1)
    state = single.apply([world.update("s", 1)], single.init(), world.view(9)).state
    assert "past" not in state["clients"]["s"]
    assert state["bases"] == {}


def test_the_first_two_and_every_tenth_conversion_tell_their_curve(world):
    settings = changed(FEW, iterations=20)
    state, told = settings.init(), []
    for _ in range(11):
        outcome = settings.apply([world.update("s", 2)], state, world.view(9))
        state = outcome.state
        told.append(outcome.notes[0].detail)
    assert [i for i, detail in enumerate(told) if "curve" in detail] == [0, 1, 10]
    curve = told[0]["curve"]
    assert len(curve) <= 12
    at = [iteration for iteration, _ in curve]
    assert at[0] == 1
    assert at[-1] == told[0]["iterations"]
    assert at == sorted(set(at))
    assert all(math.isfinite(loss) for _, loss in curve)


def test_surrogates_are_found_through_every_wrapper(world):
    whole = Convert(**{f.name: getattr(FEW, f.name) for f in dataclasses.fields(FEW)})
    for compensator in (FEW, whole, us.chain(us.Drop(max_staleness=50), us.switch_back(FEW))):
        assert surrogates_of(compensator, compensator.init()) == {}
        state = compensator.apply(
            [world.update("s", 2), world.update("t", 3)], compensator.init(), world.view(9)
        ).state
        found = surrogates_of(compensator, state)
        assert list(found) == ["s", "t"]
        assert all(surrogate.fits(INPUTS) for surrogate in found.values())
    assert surrogates_of(us.Drop(), us.Drop().init()) == {}


def test_what_is_remembered_is_bounded(world):
    settings = changed(FEW, max_clients=2)
    state = settings.init()
    for now, client in enumerate(("s", "t", "u"), start=6):
        state = settings.apply([world.update(client, 2)], state, world.view(now)).state
    assert sorted(state["clients"]) == ["t", "u"]


ABSURD = {
    "zero": zeros_like,
    "too large": lambda d: scale(d, 1e30),
    "too small": lambda d: scale(d, 1e-30),
}


@pytest.mark.parametrize("reason", sorted(ABSURD))
def test_an_absurd_update_costs_nothing_and_touches_nobody(world, reason):
    s, t = world.update("s", 2), world.update("t", 5)
    state = FEW.apply([world.update("s", 1)], FEW.init(), world.view(8)).state
    bad = dataclasses.replace(s, delta=ABSURD[reason](s.delta))
    outcome = FEW.apply([bad, t], state, world.view(9))
    assert kinds(outcome) == ["fallback", "converted"]
    assert outcome.updates[0] is bad
    detail = outcome.notes[0].detail
    assert (detail["did"], detail["iterations"]) == ("keep", 0)
    assert reason in detail["reason"]
    assert outcome.state["clients"]["s"] == state["clients"]["s"]


def test_noise_is_no_fit_and_is_kept_with_its_reason(world):
    s = world.update("s", 2)
    rng = torch.Generator().manual_seed(0)
    noise = {n: torch.randn(p.shape, generator=rng) for n, p in s.delta.items()}
    settings = converting(iterations=20, max_loss=0.3)
    state = FEW.apply([world.update("s", 1)], FEW.init(), world.view(8)).state
    bad = dataclasses.replace(s, delta=noise)
    outcome = settings.apply([bad], state, world.view(9))
    assert outcome.updates == (bad,)
    assert "no fit" in outcome.notes[0].detail["reason"]
    assert outcome.notes[0].detail["iterations"] > 0
    assert "x" not in outcome.state["clients"]["s"], "the next one begins anew"


def test_an_estimate_that_grew_too_much_is_not_trusted(world):
    stale = world.update("s", 2)
    free = changed(FEW, max_growth=0)
    estimate = free.apply([stale], free.init(), world.view(9)).updates[0]
    growth = norm(estimate.delta) / norm(stale.delta)
    for limit, kind in ((growth * 1.01, "converted"), (growth * 0.99, "fallback")):
        settings = changed(FEW, max_growth=limit)
        outcome = settings.apply([stale], settings.init(), world.view(9))
        assert kinds(outcome) == [kind]
    assert outcome.updates == (stale,)
    assert "not trusted" in outcome.notes[0].detail["reason"]


@pytest.mark.parametrize("fallback", ["keep", "drop"])
def test_without_its_base_an_update_falls_back(world, fallback):
    settings = changed(FEW, fallback=fallback)
    s, t = world.update("s", 2), world.update("t", 5)
    past = {5: world.weights[5]}
    outcome = settings.apply([s, t], settings.init(), world.view(9, history=past.get))
    assert kinds(outcome) == ["fallback", "converted"]
    assert outcome.notes[0].detail == {"did": fallback, "reason": "the base weights are gone"}
    assert [u.client_id for u in outcome.updates] == (["s", "t"] if fallback == "keep" else ["t"])


def test_a_rounds_conversions_can_be_limited(world):
    settings = changed(FEW, max_conversions=1)
    updates = [world.update("s", 5), world.update("t", 2)]
    outcome = settings.apply(updates, settings.init(), world.view(9))
    assert kinds(outcome) == ["fallback", "converted"], "the stalest is converted"
    assert outcome.updates[0] is updates[0]
    assert "used up" in outcome.notes[0].detail["reason"]


def test_a_rounds_seconds_can_be_limited(world):
    settings = converting(iterations=1_000_000, patience=0, sparsity=0, round_seconds=0.3)
    updates = [world.update("s", 5), world.update("s", 4), world.update("t", 2)]
    outcome = settings.apply(updates, settings.init(), world.view(9))
    assert all(0 < note.detail["iterations"] < 1_000_000 for note in outcome.notes)


@pytest.mark.parametrize(("missing", "word"), [("model", "Server(model"), ("inputs", "InputSpec")])
def test_what_is_missing_is_said_when_it_is_needed(world, missing, word):
    view = world.view(9, **{missing: None})
    fresh = world.update("f", 9)
    assert FEW.apply([fresh], FEW.init(), view).updates == (fresh,)
    with pytest.raises(ConfigError) as error:
        FEW.apply([fresh, world.update("s", 2)], FEW.init(), view)
    assert word in str(error.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_growth": -1.0},
        {"max_growth": float("nan")},
        {"max_conversions": 0},
        {"max_clients": None},
        {"round_seconds": 0.0},
        {"fallback": "explode"},
        {"iterations": 0},
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        converting(**wrong)
