"""Trust in stand-ins: shares and what they are worth, by formula, on tensors of three elements."""

import math

import pytest
import torch

import unstale as us
from unstale.errors import ConfigError
from unstale.methods.conversion import StandIn
from unstale.methods.conversion.stand_in_trust import (
    MOST_CHECKS,
    MOST_SHARE,
    share_of,
    with_check,
)

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


# --- a check -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "truth", "share", "error", "l1"),
    [
        ((1.0, 0.0, 0.0), (1.0, 0.0, 0.0), 1.0, 0.0, 0.0),
        ((2.0, 0.0, 0.0), (1.0, 0.0, 0.0), 0.5, 0.0, 1.0),
        ((1.0, 1.0, 0.0), (1.0, 0.0, 0.0), 0.5, 1 - math.sqrt(0.5), 1.0),
        ((1.0, 2.0, 2.0), (0.0, 3.0, 0.0), 6 / 9, 1 - 6 / 9, 4 / 3),
        ((1.0, 0.0, 0.0), (0.0, 5.0, 0.0), 0.0, 1.0, 6 / 5),
        # Too small a stand-in has a share above 1.
        ((1.0, 0.0, 0.0), (1.5, 0.0, 0.0), 1.5, 0.0, 1 / 3),
        ((1.0, 0.0, 0.0), (1.5, 1.5, 0.0), 1.5, 1 - math.sqrt(0.5), 2 / 3),
        # Beyond its bounds the share is cut: one that points back is not used backwards.
        ((1.0, 0.0, 0.0), (4.0, 0.0, 0.0), MOST_SHARE, 0.0, 3 / 4),
        ((1.0, 0.0, 0.0), (-1.0, 0.0, 0.0), 0.0, 2.0, 2.0),
    ],
)
def test_the_share_is_that_of_least_squares(made, truth, share, error, l1):
    after, notes = with_check(entry(), own(*truth, base=9), 4, three(*made))
    assert after["checks"] == [[5, pytest.approx(share, abs=1e-12)]]
    (note,) = notes
    assert (note.kind, note.client_id, note.base_version) == ("checked", "a", 9)
    assert note.detail == {
        "age": 5,
        "error": pytest.approx(error, abs=1e-6),
        "l1": pytest.approx(l1, abs=1e-6),
        "share": pytest.approx(share, abs=1e-12),
    }


def test_the_age_counts_from_the_update_that_the_surrogate_was_fitted_to():
    after, (note,) = with_check(entry(version=6), own(1.0, 0.0, 0.0), 2, three(1.0, 0.0, 0.0))
    assert (after["checks"], note.detail["age"]) == ([[7, 1.0]], 7)


def test_a_stand_in_that_is_nothing_has_no_share():
    after, (note,) = with_check(entry(), own(1.0, 0.0, 0.0), 4, three(0.0, 0.0, 0.0))
    assert after["checks"] == [[5, 0.0]]
    assert note.detail["share"] == 0.0


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_training_that_diverged_is_no_check(wrong):
    before = entry(checks=[[2, 0.5]])
    after, notes = with_check(before, own(1.0, 0.0, 0.0), 4, three(wrong, 1.0, 1.0))
    assert (after, notes) == (before, [])


def test_the_last_checks_are_kept_and_what_was_known_stays():
    found = entry()
    for base in range(5, 5 + MOST_CHECKS + 2):
        before = {**found, "checks": list(found.get("checks", []))}
        after, _ = with_check(found, own(1.0, 0.0, 0.0, base=base), 4, three(1.0, 0.0, 0.0))
        assert found.get("checks", []) == before["checks"], "the entry before is left alone"
        found = after
    assert [age for age, _ in found["checks"]] == list(range(3, 3 + MOST_CHECKS))
    assert found["version"] == 4


# --- what a stand-in is worth ------------------------------------------------------------


def share(entries, client="a", version=10, settings=CHECKED):
    return share_of(client, entries, version, settings)


def test_it_falls_with_age_as_it_did():
    """1 + κa' with κ = (0.8 − 1)/5: 0.04 less for each version of age."""
    known = {"a": entry(version=4, checks=[[5, 0.8]])}
    assert share(known, version=4) == 1.0
    assert share(known, version=9) == pytest.approx(0.8)
    assert share(known, version=14) == pytest.approx(0.6)
    assert share(known, version=28) == pytest.approx(0.04)
    assert share(known, version=30) == 0.0
    assert share(known, version=90) == 0.0


def test_it_rises_with_age_where_stand_ins_were_too_small_up_to_a_bound():
    known = {"a": entry(version=4, checks=[[10, 1.2]])}
    assert share(known, version=4) == 1.0
    assert share(known, version=14) == pytest.approx(1.2)
    assert share(known, version=34) == pytest.approx(1.6)
    assert share(known, version=54) == 2.0
    assert share(known, version=99) == 2.0
    assert share(known, version=34, settings=StandIn(max_scale=1.5)) == 1.5
    assert share(known, version=34, settings=StandIn(max_scale=1.0)) == 1.0


def test_several_checks_are_one_line_by_least_squares():
    """The line through 1 at age 0 that is nearest to them: Σ a(c − 1) / Σ a²."""
    known = {"a": entry(version=0, checks=[[2, 0.5], [4, 1.1]])}
    slope = (2 * -0.5 + 4 * 0.1) / (4 + 16)
    assert share(known, version=3) == pytest.approx(1 + 3 * slope)


def test_without_checks_a_client_is_trusted_as_others_are():
    known = {"a": entry(version=0), "b": entry(checks=[[2, 0.5]]), "c": entry(checks=[[4, 0.9]])}
    slope = (2 * -0.5 + 4 * -0.1) / (4 + 16)
    assert share(known, version=3) == pytest.approx(1 + 3 * slope)
    own_ones = {**known, "a": entry(version=0, checks=[[5, 1.0]])}
    assert share(own_ones, version=3) == 1.0
    assert share({"a": entry(version=0)}, version=900) == 1.0, "nothing speaks against it"


def test_unchecked_all_are_used_as_they_are():
    for found in (0.0, 1.5):
        known = {"a": entry(version=4, checks=[[5, found]])}
        assert share(known, version=9) == found
        assert share(known, version=9, settings=ALWAYS) == 1.0


def test_who_is_not_stood_in_for():
    known = {"a": entry(version=4), "bare": {"version": 4, "seen": 4, "count": 1}}
    assert share(known, "nobody") == 0.0
    assert share(known, "bare") == 0.0, "its surrogate was given up"
    assert share(known, settings=StandIn(enabled=False)) == 0.0
    for settings in (StandIn(max_age=6), StandIn(max_age=6, checked=False)):
        assert share(known, version=10, settings=settings) == 1.0
        assert share(known, version=11, settings=settings) == 0.0


@pytest.mark.parametrize("wrong", [0.9, 0, -1, math.nan, math.inf])
def test_the_bound_on_the_scale_is_at_least_one(wrong):
    with pytest.raises(ConfigError, match="max_scale"):
        StandIn(max_scale=wrong)
