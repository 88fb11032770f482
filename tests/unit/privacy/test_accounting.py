"""(ε, δ) of a client's updates, against the exact formula of the Gaussian mechanism."""

import math
import sys

import pytest
from scipy.optimize import brentq
from scipy.stats import norm as normal

import unstale as us
from unstale.errors import ConfigError


def exact_epsilon(sensitivity, std, delta):
    """The least ε of one Gaussian mechanism (Balle and Wang, 2018)."""
    a, b = sensitivity / (2 * std), std / sensitivity

    def excess(e):
        return normal.cdf(a - e * b) - math.exp(e) * normal.cdf(-a - e * b) - delta

    return brentq(excess, 0, 500)


@pytest.mark.parametrize(
    ("clip", "multiplier", "updates"), [(1.0, 2.0, 1), (0.1, 10.0, 40), (3.0, 1.0, 5)]
)
def test_it_holds_and_is_not_far_above_the_least(clip, multiplier, updates):
    settings = us.Protection(clip=clip, noise_multiplier=multiplier, delta=1e-5)
    # k Gaussian mechanisms are one with noise that is √k times smaller. Two data sets of a client
    # can be 2C apart.
    least = exact_epsilon(2 * clip, multiplier * clip / math.sqrt(updates), 1e-5)
    found = us.spent(settings, updates)
    assert least <= found.epsilon <= 1.15 * least
    assert (found.updates, found.delta) == (updates, 1e-5)


def test_variance_and_multiplier_are_two_ways_to_say_the_same():
    by_variance = us.Protection(clip=0.5, noise_variance=4.0)
    by_multiplier = us.Protection(clip=0.5, noise_multiplier=4.0)
    assert us.spent(by_variance, 7) == us.spent(by_multiplier, 7)


def test_more_updates_cost_more_and_none_cost_nothing():
    settings = us.Protection(clip=1.0, noise_multiplier=5.0)
    found = [us.spent(settings, n).epsilon for n in (0, 1, 2, 50)]
    assert found[0] == 0
    assert found == sorted(set(found))


def test_without_clipping_or_noise_nothing_is_guaranteed():
    assert us.spent(us.Protection(noise_variance=1.0), 1).epsilon == math.inf
    assert us.spent(us.Protection(clip=1.0), 1).epsilon == math.inf


@pytest.mark.parametrize("updates", [-1, 1.5, True])
def test_wrong_counts(updates):
    with pytest.raises(ConfigError, match="whole number of at least 0"):
        us.spent(us.Protection(), updates)


def test_a_missing_accountant_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ConfigError, match=r"pip install 'unstale\[privacy\]'"):
        us.spent(us.Protection(clip=1.0, noise_multiplier=1.0), 1)
