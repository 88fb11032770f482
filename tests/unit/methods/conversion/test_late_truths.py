"""Estimates for slow clients, compared with what these clients sent in the end."""

import dataclasses

import pytest
import torch
from late_world import changed, converting
from pretending import PLAIN, Pretended, exact, worthless
from standing import kinds, same

import unstale as us
from unstale.methods.conversion import late_truths
from unstale.methods.conversion.prefit import compute_fits, fit_job_of
from unstale.params import cosine_distance
from unstale.updates import PrefitResult

ALONE = changed(PLAIN, calibration=us.Calibration(probes=0))
REAL = converting(
    iterations=6, warm_iterations=3, max_loss=10.0, history=1, calibration=us.Calibration(probes=0)
)


def calibrated(outcome):
    return [n for n in outcome.notes if n.kind == "calibrated"]


def test_an_estimate_is_compared_once_its_truth_arrives(world):
    stale, truth = world.update("s", 2), world.update("s", 6)
    first = REAL.apply([stale], REAL.init(), world.view(6))
    raw = changed(REAL, calibration=us.Calibration(enabled=False))
    estimate = raw.apply([stale], raw.init(), world.view(6)).updates[0].delta
    assert not same(dict(first.updates[0].delta), dict(estimate)), "half of it is used"
    outcome = REAL.apply([truth], first.state, world.view(10))
    (note,) = calibrated(outcome)
    assert (note.client_id, note.base_version) == ("s", 6)
    assert (note.detail["lag"], note.detail["late"]) == (4, True)
    # Models of this size are their own sketch.
    assert note.detail["error"] == pytest.approx(cosine_distance(estimate, truth.delta), abs=1e-6)
    assert note.detail["stale_error"] == pytest.approx(
        cosine_distance(stale.delta, truth.delta), abs=1e-6
    )
    assert len(outcome.state["calibration"]["pairs"]["s"]) == 1
    # What was compared is gone; the new one waits.
    assert [w["target"] for w in outcome.state["calibration"]["waiting"]["s"]] == [10]


@pytest.mark.parametrize(("base", "found"), [(5, 0), (6, 1), (7, 1), (8, 0)])
def test_the_truth_may_be_from_shortly_after(world, monkeypatch, base, found):
    pretended = Pretended(monkeypatch, world, exact)
    first = ALONE.apply([pretended.update("s", 2)], ALONE.init(), world.view(6))
    outcome = ALONE.apply([pretended.update("s", base)], first.state, world.view(11))
    assert len(calibrated(outcome)) == found


@pytest.mark.parametrize(("estimate", "low", "high"), [(exact, 0.9, 1.0), (worthless, 0.0, 0.1)])
def test_a_client_is_trusted_by_its_own_truths(world, monkeypatch, estimate, low, high):
    pretended = Pretended(monkeypatch, world, estimate)
    state, shares = ALONE.init(), []
    for now in range(3, 13):
        outcome = ALONE.apply([pretended.update("s", now - 3)], state, world.view(now))
        state = outcome.state
        shares += [n.detail["share"] for n in outcome.notes if n.kind == "converted"]
    assert shares[:3] == [0.5] * 3, "nothing is known before the first truth"
    assert low <= shares[-1] <= high
    other = ALONE.apply([pretended.update("t", 9)], state, world.view(12))
    (note,) = other.notes
    assert abs(note.detail["share"] - 0.5) > 0.2, "others learn from it too"


def test_what_waits_is_bounded_and_spread(world, monkeypatch):
    pretended = Pretended(monkeypatch, world, exact)
    monkeypatch.setattr(late_truths, "MOST_WAITING", 2)
    state, waiting = ALONE.init(), []
    for now in range(5, 13):
        state = ALONE.apply([pretended.update("s", now - 4)], state, world.view(now)).state
        waiting.append([w["target"] for w in state["calibration"]["waiting"]["s"]])
    assert waiting[:4] == [[5], [5], [5, 7], [5, 7]]
    assert all(len(found) <= 2 for found in waiting)
    assert waiting[4] == [7, 9], "5 has been compared"


def test_fresh_updates_and_no_stand_ins_are_truths(world, monkeypatch):
    pretended = Pretended(monkeypatch, world, exact)
    state = ALONE.apply([pretended.update("s", 2)], ALONE.init(), world.view(6)).state
    made = dataclasses.replace(pretended.update("s", 7), stand_in=True)
    assert calibrated(ALONE.apply([made], state, world.view(7))) == []
    assert len(calibrated(ALONE.apply([pretended.update("s", 7)], state, world.view(7)))) == 1


def test_the_check_of_a_stand_in_serves_where_no_update_fits(world):
    """The client takes up its next work long after its update arrived."""
    standing = changed(REAL, history=1)
    first = standing.apply([world.update("s", 1)], standing.init(), world.view(4))
    away = standing.apply([], first.state, world.view(6, absent=("s",)))
    truth = world.update("s", 8)
    outcome = standing.apply([truth], away.state, world.view(10))
    assert sorted(kinds(outcome)) == ["calibrated", "checked", "converted"]
    (note,) = calibrated(outcome)
    assert note.detail["lag"] == 7
    # The conversion of the first update to version 8.
    raw = changed(REAL, calibration=us.Calibration(enabled=False))
    view = world.view(8, rng=world.view(4).rng)
    wanted = raw.apply([world.update("s", 1)], raw.init(), view).updates[0].delta
    assert note.detail["error"] == pytest.approx(cosine_distance(wanted, truth.delta), abs=1e-5)
    # Where its own update fits, it is compared once.
    near = standing.apply([world.update("s", 4)], away.state, world.view(10))
    assert sorted(kinds(near)) == ["calibrated", "checked", "converted"]
    assert calibrated(near)[0].detail["lag"] == 3


def test_prefits_give_the_same(world):
    stale = world.update("s", 2)
    state = REAL.apply([world.update("s", 1)], REAL.init(), world.view(5)).state
    job = fit_job_of(REAL, stale, state, world.view(6))
    (fit,) = compute_fits(world.model, [job])
    ahead = {stale.key: PrefitResult(job.request, fit, 6)}
    plain = REAL.apply([stale], state, world.view(6))
    used = REAL.apply([stale], state, world.view(6, prefits=ahead))
    assert same(dict(plain.updates[0].delta), dict(used.updates[0].delta))
    assert plain.notes[-1].detail["share"] == used.notes[-1].detail["share"]


def test_work_that_began_while_the_update_awaited_its_fit_is_a_truth(world):
    stale = world.update("s", 0)
    job = fit_job_of(REAL, stale, REAL.init(), world.view(10))
    (fit,) = compute_fits(world.model, [job])
    ahead = {stale.key: PrefitResult(job.request, fit, 9)}
    state = REAL.apply([stale], REAL.init(), world.view(10, prefits=ahead)).state
    (item,) = state["calibration"]["waiting"]["s"]
    assert (item["target"], item["first"], item["until"]) == (10, 9, 11)
    assert len(calibrated(REAL.apply([world.update("s", 9)], state, world.view(12)))) == 1


def test_sketches_are_small_and_of_single_precision(world):
    state = REAL.apply([world.update("s", 2)], REAL.init(), world.view(6)).state
    (item,) = state["calibration"]["waiting"]["s"]
    for key in ("stale", "estimate"):
        assert item[key].dtype == torch.float32
        assert item[key].numel() <= 2048
