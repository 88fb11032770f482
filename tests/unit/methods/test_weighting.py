"""The weights of staleness against their published formulas, worked out by hand."""

import math

import pytest

import unstale as us
from unstale.errors import ConfigError

ALL = [us.SigmoidWeight(), us.PolynomialWeight(), us.HingeWeight(), us.ExponentialWeight()]


def test_sigmoid():
    weigh = us.SigmoidWeight(a=0.25, b=10).weight
    assert us.SigmoidWeight() == us.SigmoidWeight(a=0.25, b=10)  # the paper's
    assert weigh(10) == 0.5
    assert weigh(14) == pytest.approx(1 / (1 + 2.718281828459045))  # a(14-10) = 1
    assert weigh(6) == pytest.approx(2.718281828459045 / (1 + 2.718281828459045))
    assert weigh(40) == pytest.approx(0.000552778636923600)  # e^-7.5 / (1 + e^-7.5)


def test_polynomial_is_fedbuffs_and_not_its_lookalike():
    weigh = us.PolynomialWeight(a=0.5).weight
    assert [weigh(0), weigh(3), weigh(8), weigh(15)] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4])
    assert weigh(3) != pytest.approx(1 / (1 + math.sqrt(3)))
    assert us.PolynomialWeight(a=2).weight(4) == pytest.approx(1 / 25)


def test_hinge_has_its_one():
    weigh = us.HingeWeight(a=10, b=4).weight
    assert [weigh(0), weigh(4)] == [1.0, 1.0]
    # 1/(10*1+1) and 1/(10*6+1), not 1/10 and 1/60.
    assert [weigh(5), weigh(10)] == pytest.approx([1 / 11, 1 / 61])


def test_exponential():
    weigh = us.ExponentialWeight(a=0.5).weight
    assert [weigh(0), weigh(2), weigh(4)] == pytest.approx([1, 0.36787944117, 0.13533528323])


@pytest.mark.parametrize("factor", [0.25, 1.0, 4.0])
def test_scaled_weighs_stale_updates_by_one_factor_whatever_their_staleness(factor, three):
    """One fresh and one stale update of equal size: the mean is (1·fresh + f·stale) / (1 + f)."""
    server = us.step(
        us.ServerState(9, three(0, 0, 0), {}, {}),
        [us.Update("fast", 9, three(5.0, 0.0, 0.0), 10), us.Update("slow", 2, three(0, 5, 0), 10)],
        method=us.method("scaled", factor=factor),
        local=us.LocalSpec(),
        history={}.get,
        rng=None,
    )
    wanted = [5 / (1 + factor), 5 * factor / (1 + factor), 0.0]
    assert server.state.params["w"].tolist() == pytest.approx(wanted, rel=1e-15)
    assert [u.weight for u in server.report.updates] == [1.0, factor]
    assert [n.detail for n in server.report.notes] == [{"weight": factor}]


@pytest.mark.parametrize("factor", [0, -2.0, math.nan, math.inf])
def test_scaled_refuses_a_factor_that_is_not_positive(factor):
    with pytest.raises(ConfigError, match="scaled: `factor` should be a number above 0"):
        us.ScaledWeight(factor=factor)


@pytest.mark.parametrize("part", ALL, ids=lambda p: type(p).__name__)
def test_weights_fall_and_stay_sound_at_any_staleness(part):
    weights = [part.weight(s) for s in [*range(60), 10**4, 10**6, 10**9]]
    assert all(0 <= w <= 1 for w in weights)
    assert weights == sorted(weights, reverse=True)
    assert weights[50] < weights[1]


@pytest.mark.parametrize("part", ALL, ids=lambda p: type(p).__name__)
def test_the_weight_is_multiplied_once_a_round_and_never_kept(part, view, three, late):
    here = view(13, three(0, 0, 0))
    update = late(1.0, 2.0, 3.0)
    first = part.apply([update], part.init(), here)
    again = part.apply([update], first.state, here)
    assert update.weight == 1.0
    assert first.updates[0].weight == again.updates[0].weight == part.weight(10)
    assert first.updates[0].delta is update.delta
    assert first.notes[0].kind == "weighted"
    assert first.notes[0].detail == {"weight": part.weight(10)}
    # What the client (or a compensator before) set is lowered, not replaced.
    halved = part.apply([late(1.0, 2.0, 3.0, weight=0.5)], {}, here).updates[0]
    assert halved.weight == 0.5 * part.weight(10)


def test_a_fresh_update_keeps_its_weight_under_the_sigmoid(view, three, late):
    # The formula alone would give 1/(1 + e^-2.5) = 0.92 at τ = 0.
    outcome = us.SigmoidWeight().apply([late(1.0, 2.0, 3.0)], {}, view(3, three(0, 0, 0)))
    assert outcome.updates[0].weight == 1.0
    assert outcome.notes == ()


@pytest.mark.parametrize(
    "make", [us.SigmoidWeight, us.PolynomialWeight, us.HingeWeight, us.ExponentialWeight]
)
@pytest.mark.parametrize("a", [0, -0.5, math.nan, math.inf])
def test_refuses_slopes_that_are_not_positive(make, a):
    with pytest.raises(ConfigError, match="`a` should be a number above 0"):
        make(a=a)


@pytest.mark.parametrize("make", [us.SigmoidWeight, us.HingeWeight])
@pytest.mark.parametrize("b", [math.nan, math.inf])
def test_refuses_a_bound_that_is_no_number(make, b):
    with pytest.raises(ConfigError, match="`b` should be a number"):
        make(b=b)
