"""How far estimates are trusted: the shares on tensors small enough to compute by hand."""

import math

import pytest
import torch

import unstale as us
from unstale.errors import ConfigError, UnknownNameError
from unstale.methods.conversion import calibration
from unstale.methods.conversion.calibration import (
    Shares,
    mixed,
    pair_of,
    relative_error,
    shares_of,
)
from unstale.methods.conversion.calibration_book import MOST_PAIRS, new_book, pruned, with_pair
from unstale.methods.conversion.candidates import best, inversion_of

NOW = 50
LATE = us.Update("me", 10, {"w": torch.ones(2)}, 40)
CAREFUL = us.Calibration(caution=2.0, doubt=1.0)


def pair(n=1.0, d=1.0, lag=40, fitted=10, **changes):
    plain = {"longer": 1.0, "wanted": 1.0, "updates": 1, "by": "", "late": False}
    plain["stale_error"] = 0.1
    return {"n": n, "d": d, "lag": lag, "fitted": fitted, **plain, **changes}


def share(pairs, settings=CAREFUL, updates=1, stale=LATE):
    return shares_of(pairs, stale, NOW, updates, settings).direction


def vectors(*rows):
    return torch.tensor(rows, dtype=torch.float64)


# --- pairs -------------------------------------------------------------------------------


def test_a_pair_by_hand():
    """Unit vectors: stale (1, 0), estimate (0, 1), truth at 45°."""
    found = pair_of(*vectors([2, 0], [0, 6], [4, 4]), lag=7, updates=9, fitted=3, by="x", late=True)
    half = math.sqrt(0.5)
    missing = (half - 1) ** 2 + half**2
    assert found["n"] == pytest.approx(((1 - half) + half) / missing)
    assert found["d"] == pytest.approx(2 / missing)
    assert found["n"] / found["d"] == pytest.approx(0.5), "between the two"
    assert found["longer"] == pytest.approx(math.log(3))
    assert found["wanted"] == pytest.approx(math.log(math.sqrt(32) / 2))
    assert found["stale_error"] == pytest.approx(1 - half)
    assert found["error"] == pytest.approx(1 - half)
    assert (found["lag"], found["updates"], found["fitted"]) == (7, 4, 3)
    assert (found["by"], found["late"]) == ("x", True)
    assert relative_error(found) == pytest.approx(1.0), "as far from the truth as the stale one"


def test_an_estimate_that_flies_off_does_not_count_without_bound():
    found = pair_of(*vectors([1, 0], [-1, 0], [1, 0.01]), lag=1, updates=1, fitted=0)
    assert found["d"] == pytest.approx(calibration.MOST_MOVE)
    assert abs(found["n"]) <= found["d"]


@pytest.mark.parametrize(
    "rows",
    [
        ([1, 0], [0, 1], [3, 0]),  # the stale direction is right: nothing to learn
        ([0, 0], [0, 1], [3, 0]),
        ([1, 0], [0, 0], [3, 1]),
        ([1, 0], [0, 1], [0, 0]),
        ([1, 0], [math.nan, 1], [3, 1]),
        ([1, 0], [math.inf, 1], [3, 1]),
    ],
)
def test_nothing_is_learned_where_nothing_can_be(rows):
    assert pair_of(*vectors(*rows), lag=1, updates=1, fitted=0) is None


# --- shares ------------------------------------------------------------------------------


def test_without_pairs_it_is_the_prior():
    assert share({}) == 0.5
    assert share({}, us.Calibration(prior_share=0.2)) == 0.2
    assert share({}, us.Calibration(prior_share=0.2, caution=0.0)) == 0.2


def test_the_formula_by_hand():
    """Two probes at this very lag and version: weight 1 each, beside a caution of 2."""
    pairs = {"a": [pair(0.9, 1.2)], "b": [pair(0.4, 1.6)]}
    assert share(pairs) == pytest.approx((0.9 + 0.4 + 1.0) / (1.2 + 1.6 + 2.0))
    assert share(pairs, us.Calibration(caution=0, doubt=1)) == pytest.approx(1.3 / 2.8)
    found = shares_of({"a": [pair(longer=-1.0, wanted=-0.6)]}, LATE, NOW, 1, CAREFUL)
    assert found.norm == pytest.approx((0.6 + 0.25) / (1.0 + 0.5))


def test_a_pair_weighs_as_much_as_the_stale_direction_was_wrong():
    """Errors of 0.3 and 0.1; the prior's two pairs have their mean, 0.2."""
    pairs = {"a": [pair(0.9, 1.2, stale_error=0.3)], "b": [pair(0.4, 1.6, stale_error=0.1)]}
    top = 0.3 * 0.9 + 0.1 * 0.4 + 2 * 0.2 * 0.5
    assert share(pairs) == pytest.approx(top / (0.3 * 1.2 + 0.1 * 1.6 + 2 * 0.2))


def test_errors_of_other_clients_count_twice():
    """Squared errors of 1 − 1.8 + 1.2 = 0.4 and 1 − 0.8 + 1.6 = 1.8, relative to the stale ones."""
    pairs = {"a": [pair(0.9, 1.2)], "me": [pair(0.4, 1.6, late=True)]}
    doubting = us.Calibration(caution=0.0, doubt=2.0)
    assert share(pairs, doubting) == pytest.approx((0.9 + 4 * 0.4) / (1.2 + 0.4 + 4 * 1.6))
    pairs["me"][0]["late"] = False  # as a probe it was another kind of client
    assert share(pairs, doubting) == pytest.approx(1.3 / (1.2 + 0.4 + 1.6 + 1.8))
    assert share({"a": [pair(1.0, 1.0)]}, doubting) == 1.0, "what was right stays trusted"
    found = shares_of({"a": [pair(longer=-1.0, wanted=-0.6)]}, LATE, NOW, 1, doubting)
    assert found.norm == pytest.approx(0.6 / (1.0 + 0.4**2))


def test_it_stays_within_its_bounds():
    assert share({str(i): [pair(3.0, 1.0)] for i in range(9)}) == 1.0
    assert share({str(i): [pair(-3.0, 1.0)] for i in range(9)}) == 0.0


def test_own_truths_weigh_more_than_those_of_others_and_probes_least():
    sources = {"mine": ("me", True), "slow": ("a", True), "fast": ("a", False)}
    found = {
        name: share({owner: [pair(1.0, 1.0, late=late)]}) for name, (owner, late) in sources.items()
    }
    assert found["mine"] == pytest.approx((4 + 1) / (4 + 2))
    assert found["slow"] == pytest.approx((2 + 1) / (2 + 2))
    assert found["fast"] == pytest.approx((1 + 1) / (1 + 2))
    # What a client showed as a probe, before it became slow, is one of the fast.
    assert share({"me": [pair(1.0, 1.0)]}) == found["fast"]


def test_pairs_far_away_hardly_count():
    near, far = share({"a": [pair(0, 1)]}), share({"a": [pair(0, 1, lag=2)]})
    assert near == pytest.approx(1 / 3)
    assert far == pytest.approx(0.5, abs=0.001)
    between = share({"a": [pair(0, 1, lag=20, fitted=30)]})
    weight = math.exp(-((math.log(2) / 0.7) ** 2) / 2)
    assert between == pytest.approx(1 / (2 + weight))
    other_updates = share({"a": [pair(0, 1)]}, updates=2)
    assert other_updates == pytest.approx(between)
    long_ago = share({"a": [pair(0, 1, lag=20, fitted=5)]})  # truth from version 25 of 50
    assert long_ago == pytest.approx(1 / (2 + weight * weight))


def test_pairs_of_one_surrogate_count_as_one():
    assert share({"a": [pair(0, 1)] * 10}) == pytest.approx(1 / 3)
    several = [pair(0, 1, fitted=10), pair(0, 1, lag=39, fitted=11)]
    assert share({"a": several}) < 0.26, "two surrogates"


def test_only_pairs_of_the_same_candidate_count():
    pairs = {"a": [pair(0, 1, by="gaussian")]}
    assert share(pairs) == 0.5
    assert shares_of(pairs, LATE, NOW, 1, us.Calibration(), "gaussian").direction < 0.5


# --- what is used ------------------------------------------------------------------------


def test_direction_and_norm_are_mixed_apart():
    stale, estimate = {"w": torch.tensor([8.0, 0.0])}, {"w": torch.tensor([0.0, 2.0])}
    assert mixed(stale, estimate, Shares(1.0, 1.0)) is estimate
    for direction, norm, wanted in (
        (0.0, 1.0, (2.0, 0.0)),
        (0.0, 0.0, (8.0, 0.0)),
        (1.0, 0.5, (0.0, 4.0)),
        (0.5, 0.5, (math.sqrt(8.0), math.sqrt(8.0))),
    ):
        found = mixed(stale, estimate, Shares(direction, norm))["w"]
        assert found.tolist() == pytest.approx(list(wanted))
        assert found.dtype == torch.float32
    opposite = {"w": torch.tensor([-1.0, 0.0])}
    assert mixed(stale, opposite, Shares(0.5, 0.5)) is stale


# --- the book ----------------------------------------------------------------------------


def test_the_oldest_pairs_of_a_kind_are_forgotten():
    book = with_pair(new_book(), "a", pair(fitted=0, late=True))
    for i in range(MOST_PAIRS + 5):
        book = with_pair(book, "a", pair(fitted=i))
    found = book["pairs"]["a"]
    assert len(found) == MOST_PAIRS + 1
    assert [p["fitted"] for p in found[1:]] == list(range(5, MOST_PAIRS + 5))
    assert found[0]["late"], "another kind"


def test_clients_are_bounded():
    book = new_book()
    for i, client in enumerate("abc"):
        book = with_pair(book, client, pair(fitted=10 - i))
    waiting = {"a": [{"target": 5}], "b": [], "c": [{"target": 7}], "d": [{"target": 6}]}
    found = pruned({**book, "waiting": waiting}, 2)
    assert list(found["pairs"]) == ["a", "b"]
    assert list(found["waiting"]) == ["c", "d"]


# --- candidates --------------------------------------------------------------------------


def test_the_candidate_with_the_least_error_is_used_once_all_are_known():
    settings = us.Calibration(candidates=("gaussian", "sparse"))
    pairs = {
        "a": [pair(0.5, 0.5), pair(0.9, 1.0, by="gaussian"), pair(0.2, 0.9, by="sparse")] * 3,
        "b": [pair(0.5, 0.5), pair(0.9, 1.0, by="gaussian")] * 3,
        "slow": [pair(1.0, 1.0, by="sparse", late=True)] * 9,
    }
    book = {**new_book(), "pairs": pairs}
    assert best(book, settings) == "", "sparse has three only"
    pairs["b"].append(pair(0.2, 0.9, by="sparse"))
    assert best(book, settings) == "gaussian"
    assert best(book, us.Calibration()) == ""
    assert inversion_of("gaussian", us.Inversion()).start == "gaussian"
    assert inversion_of("", us.Inversion()) == us.Inversion()


@pytest.mark.parametrize(
    "wrong",
    [
        {"probes": -1},
        {"probes": 1.5},
        {"cost": -0.1},
        {"cost": math.nan},
        {"renew": 0},
        {"caution": -1.0},
        {"prior_share": 1.1},
        {"doubt": 0.9},
        {"doubt": math.inf},
        {"candidates": ("gaussian", "gaussian")},
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ConfigError, match=f"calibration: `{next(iter(wrong))}`"):
        us.Calibration(**wrong)


def test_an_unknown_candidate_names_the_nearest():
    with pytest.raises(UnknownNameError, match=r"candidates.*Did you mean 'gaussian'"):
        us.method("convert", calibration={"candidates": ["gausian"]})
    assert us.Calibration(candidates="sparse").candidates == ("sparse",)
