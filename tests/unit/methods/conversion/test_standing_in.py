"""What stands in for an absent client, its check, and what happens beside it."""

import dataclasses

import pytest
import torch
from late_world import changed, converting
from standing import FEW, added, kinds, same, trained, with_entry

import unstale as us
from unstale.executors import WorkerError
from unstale.methods import Convert
from unstale.methods.conversion import convert_all
from unstale.methods.conversion.prefit import compute_fits, fit_job_of
from unstale.params import cosine_distance, flatten
from unstale.updates import PrefitResult

OWN = {f.name: getattr(FEW, f.name) for f in dataclasses.fields(FEW)}


# --- what a stand-in is ------------------------------------------------------------------


def test_it_is_the_local_update_of_todays_weights_by_the_surrogate(world, known):
    outcome = FEW.apply([], known, world.view(9, absent=("s", "t")))
    for client in ("s", "t"):
        assert same(added(outcome)[client].delta, trained(world, FEW, known, client, 9))
    assert outcome.state["clients"]["s"]["x"] is known["clients"]["s"]["x"]


def test_many_are_trained_together_and_agree_to_rounding(world, known):
    updates = [world.update(c, 2) for c in ("u", "v", "w")]
    state = FEW.apply(updates, known, world.view(7)).state
    names = ("s", "t", "u", "v", "w")
    outcome = FEW.apply([], state, world.view(9, absent=names))
    for client in names:
        found, wanted = added(outcome)[client].delta, trained(world, FEW, state, client, 9)
        for name in wanted:
            torch.testing.assert_close(found[name], wanted[name], rtol=1e-4, atol=1e-6)


def test_it_is_nearer_to_the_truth_than_the_last_update(world):
    whole = converting(sparsity=0, iterations=120, warm_iterations=40)
    last = world.update("s", 2)
    state = whole.apply([last], whole.init(), world.view(6)).state
    found = added(whole.apply([], state, world.view(12, absent=("s",))))["s"]
    assert world.error(last, 12) > 0.05, "the world should hurt"
    assert world.error(found, 12) < world.error(last, 12) / 2


def test_examples_and_recipe_are_those_of_the_newest_update(world):
    local = us.LocalSpec(lr=0.5, epochs=1, batch_size=3)  # 7 steps of 20 examples
    state = FEW.init()
    for base, examples in ((4, 20), (2, 50)):  # the older one arrives last
        update = dataclasses.replace(world.update("s", base), num_examples=examples)
        state = FEW.apply([update], state, world.view(6, local=local)).state
    found = added(FEW.apply([], state, world.view(9, absent=("s",), local=local)))["s"]
    assert found.num_examples == 20
    assert same(found.delta, trained(world, FEW, state, "s", 9, 20, local))
    assert not same(found.delta, trained(world, FEW, state, "s", 9, 50, local))


def test_arrivals_are_converted_to_the_same_bits_whoever_is_absent(world, known):
    arrivals = [world.update("f", 9), world.update("t", 6), world.update("u", 5)]
    for settings in (FEW, changed(FEW, residual=False)):
        alone = settings.apply(arrivals, known, world.view(9))
        found = settings.apply(arrivals, known, world.view(9, absent=("s",)))
        assert list(added(found)) == ["s"]
        assert kinds(alone) == ["converted", "converted"]
        for one, other in zip(found.updates, alone.updates, strict=False):
            assert same(dict(one.delta), dict(other.delta))


# --- checks ------------------------------------------------------------------------------


def test_an_own_update_is_compared_with_what_would_have_stood_in(world, known):
    away = FEW.apply([], known, world.view(8, absent=("s",)))
    truth = world.update("s", 9)
    outcome = FEW.apply([truth], away.state, world.view(11))
    (note,) = [n for n in outcome.notes if n.kind == "checked"]
    made = trained(world, FEW, known, "s", 9)  # the old surrogate, from the same version
    a, b = flatten(made).double(), flatten(truth.delta).double()
    share = min(max(float(a @ b) / float(a @ a), 0.0), 2.0)
    assert note.detail["age"] == 9 - 2
    assert note.detail["share"] == pytest.approx(share, rel=1e-9)
    assert note.detail["error"] == pytest.approx(cosine_distance(made, truth.delta), abs=1e-9)
    apart = float((a - b).abs().sum() / b.abs().sum())
    assert note.detail["l1"] == pytest.approx(apart, rel=1e-9)
    entry = outcome.state["clients"]["s"]
    assert entry["checks"] == [[7, pytest.approx(share, rel=1e-9)]]
    assert (entry["version"], entry["stood_in"]) == (9, 0)
    # The same conversion as without a check.
    plain = FEW.apply([truth], known, world.view(11))
    assert kinds(plain) == ["converted"]
    assert same(dict(plain.updates[0].delta), dict(outcome.updates[0].delta))


def test_the_next_stand_in_weighs_what_the_check_left(world, known):
    state = with_entry(known, "s", checks=[[4, 0.6]])
    found = added(FEW.apply([], state, world.view(7, absent=("s", "t"))))
    assert found["s"].weight == pytest.approx(1 - 0.1 * 5)
    assert found["t"].weight == pytest.approx(1 - 0.1 * 4), "as the others on average"
    free = changed(FEW, checked=False)
    found = added(free.apply([], state, world.view(7, absent=("s", "t"))))
    assert [u.weight for u in found.values()] == [1.0, 1.0]


def test_the_surrogate_of_before_is_compared_once_more_with_the_update_after_the_next(world, known):
    away = FEW.apply([], known, world.view(8, absent=("s",)))
    back = FEW.apply([world.update("s", 9)], away.state, world.view(11))
    first, second = known["clients"]["s"], back.state["clients"]["s"]
    assert second["before"]["x"] is first["x"]
    assert (second["before"]["version"], second["version"]) == (2, 9)
    again = FEW.apply([], back.state, world.view(11, absent=("s",)))
    truth = world.update("s", 11)
    outcome = FEW.apply([truth], again.state, world.view(12))
    older, newer = (n.detail for n in outcome.notes if n.kind == "checked")
    assert (older["age"], newer["age"]) == (11 - 2, 11 - 9)
    made = trained(world, FEW, known, "s", 11)
    assert older["error"] == pytest.approx(cosine_distance(made, truth.delta), abs=1e-9)
    assert [age for age, _ in outcome.state["clients"]["s"]["checks"]] == [7, 9, 2]
    assert outcome.state["clients"]["s"]["before"]["version"] == 9


def test_without_checks_one_surrogate_is_kept(world, known):
    for settings in (changed(FEW, checked=False), changed(FEW, enabled=False)):
        state = settings.apply([world.update("s", 9)], known, world.view(11)).state
        assert "before" not in state["clients"]["s"]


def test_a_fresh_own_update_is_also_compared(world, known):
    away = FEW.apply([], known, world.view(8, absent=("s",)))
    outcome = FEW.apply([world.update("s", 10)], away.state, world.view(10))
    assert kinds(outcome) == ["checked"]
    assert outcome.state["clients"]["s"]["version"] == 2, "its surrogate is still the old one"
    again = FEW.apply([world.update("s", 11)], outcome.state, world.view(11))
    assert kinds(again) == [], "once for each absence"


# --- beside fits -------------------------------------------------------------------------


def test_without_warm_starts_it_still_stands_in_and_fits_cold(world):
    cold = changed(FEW, warm_start=False, history=1)
    state = cold.apply([world.update("s", 2)], cold.init(), world.view(6)).state
    outcome = cold.apply([], state, world.view(8, absent=("s",)))
    assert same(added(outcome)["s"].delta, trained(world, cold, state, "s", 8))
    after = cold.apply([world.update("s", 7)], outcome.state, world.view(10))
    anew = cold.apply([world.update("s", 7)], cold.init(), world.view(10))
    assert [n.detail["start"] for n in after.notes if n.kind == "converted"] == ["cold"]
    assert same(dict(after.updates[0].delta), dict(anew.updates[0].delta))


@pytest.mark.parametrize("method", [FEW, Convert(**OWN)], ids=["all", "whole"])
def test_fits_made_ahead_give_the_same_numbers_beside_stand_ins(world, method):
    state = method.apply(
        [world.update("s", 1), world.update("t", 2)], method.init(), world.view(4)
    ).state
    stale = world.update("t", 6)
    for now in (7, 9):  # t is back at 9, after it was stood in for
        absent = ("s", "t") if now == 7 else ("s",)
        arrivals = [world.update("f", now), *([stale] if now == 9 else [])]
        view, prefits = world.view(now, absent=absent), {}
        if now == 9:
            job = fit_job_of(method, stale, state, view)
            (fit,) = compute_fits(world.model, [job])
            prefits = {stale.key: PrefitResult(job.request, fit, now)}
        plain = method.apply(arrivals, state, view)
        ahead = method.apply(arrivals, state, world.view(now, absent=absent, prefits=prefits))
        assert kinds(plain) == kinds(ahead)
        assert set(added(plain)) == set(absent)
        for one, other in zip(plain.updates, ahead.updates, strict=True):
            assert (one.key, one.weight) == (other.key, other.weight)
            assert same(dict(one.delta), dict(other.delta))
        state = plain.state
    assert "checked" in kinds(plain, "t")


def test_dead_workers_do_not_keep_it_from_standing_in(world, known, monkeypatch):
    def dies(*_):
        raise WorkerError("the workers died")

    monkeypatch.setattr(convert_all, "fit_parallel", dies)
    outcome = FEW.apply([world.update("t", 6)], known, world.view(9, absent=("s",)))
    assert kinds(outcome, "t") == ["fallback"]
    assert list(added(outcome)) == ["s"]


# --- absurd ones -------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 1e30])
def test_a_surrogate_that_leads_nowhere_breaks_nothing(world, known, wrong):
    x = torch.full_like(known["clients"]["s"]["x"], wrong)
    state = with_entry(known, "s", x=x, stood_in=1)
    fresh, stale = world.update("f", 9), world.update("t", 6)
    outcome = FEW.apply([fresh, stale], state, world.view(9, absent=("s",)))
    plain = FEW.apply([fresh, stale], known, world.view(9))
    assert all(bool(torch.isfinite(flatten(u.delta)).all()) for u in outcome.updates)
    assert same(dict(outcome.updates[1].delta), dict(plain.updates[1].delta))
    if wrong != 1e30:  # which saturates the model: small, and harmless
        assert added(outcome) == {}
        assert outcome.state["clients"]["s"]["stood_in"] == 1
        back = FEW.apply([world.update("s", 8)], outcome.state, world.view(10))
        assert "checked" not in kinds(back)


def test_one_that_grew_too_much_is_not_used(world, known):
    norm = known["clients"]["s"]["norm"]
    found = added(FEW.apply([], known, world.view(9, absent=("s",))))["s"]
    growth = float(flatten(found.delta).norm()) / norm
    for limit, used in ((growth * 1.01, ["s"]), (growth * 0.99, [])):
        settings = changed(FEW, max_growth=limit)
        outcome = settings.apply([], known, world.view(9, absent=("s",)))
        assert list(added(outcome)) == used
        assert kinds(outcome) == ["stood_in"] * len(used)
        assert outcome.state["clients"]["s"].get("stood_in", 0) == len(used)
