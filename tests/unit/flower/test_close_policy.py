"""When a round closes, as a rule by itself."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.errors import ConfigError
from unstale.flower.close_policy import ClosePolicy


@pytest.mark.parametrize(
    ("fraction", "fast", "needed"),
    [(1.0, 5, 5), (0.8, 10, 8), (0.8, 9, 8), (0.5, 1, 1), (0.01, 100, 1), (1.0, 0, 0)],
)
def test_the_fraction_is_rounded_up(fraction, fast, needed):
    assert ClosePolicy(fraction).needed(fast) == needed


def test_rounding_of_floats_asks_for_nobody_more():
    assert 0.07 * 100 > 7
    assert ClosePolicy(0.07).needed(100) == 7


@given(st.integers(1, 100), st.integers(0, 500))
def test_percent_of_nodes(percent, fast):
    """Against whole numbers, which know no rounding."""
    assert ClosePolicy(percent / 100).needed(fast) == -(-percent * fast // 100)


def test_both_the_fraction_and_the_replies_are_needed():
    rule = ClosePolicy(0.5, min_replies=3)
    assert rule.is_met(fast=4, answered=2, arrivals=3)
    assert not rule.is_met(fast=4, answered=1, arrivals=3)
    assert not rule.is_met(fast=4, answered=2, arrivals=2)
    assert rule.is_met(fast=0, answered=0, arrivals=3)


@pytest.mark.parametrize("fraction", [0, -1, 1.01, math.nan, "0.5", True, None])
def test_a_wrong_fraction_is_refused(fraction):
    with pytest.raises(ConfigError, match="fraction"):
        ClosePolicy(fraction)


@pytest.mark.parametrize("deadline", [0, -1, math.nan, math.inf, "60", True])
def test_a_wrong_deadline_is_refused(deadline):
    with pytest.raises(ConfigError, match="deadline"):
        ClosePolicy(deadline=deadline)


@pytest.mark.parametrize("min_replies", [0, -1, 1.0, True, "1", None])
def test_too_few_replies_are_refused(min_replies):
    """With 0 a round of busy nodes would close at once, and the next, without end."""
    with pytest.raises(ConfigError, match="min_replies"):
        ClosePolicy(min_replies=min_replies)
