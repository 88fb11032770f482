"""FedAvg against its formula, and against the mistakes that others made with it."""

import math

import pytest
import torch

from unstale.errors import ConfigError
from unstale.methods.aggregate import FedAvg, mean_delta


def test_is_the_mean_by_examples(update, view):
    # 30 and 10 examples: 3/4 and 1/4.
    arrivals = [update("a", 0, [4.0, 0.0, -8.0], 30), update("b", 0, [0.0, 8.0, 8.0], 10)]
    found = FedAvg().apply(arrivals, {}, view).delta["w"]
    assert found.tolist() == [3.0, 2.0, -4.0]


def test_staleness_alone_changes_nothing(update, view):
    fresh = [update("a", 0, [4.0, 0.0, -8.0], 30), update("b", 0, [0.0, 8.0, 8.0], 10)]
    stale = [update("a", 7, [4.0, 0.0, -8.0], 30), update("b", 2, [0.0, 8.0, 8.0], 10)]
    one, other = FedAvg().apply(fresh, {}, view), FedAvg().apply(stale, {}, view)
    assert torch.equal(one.delta["w"], other.delta["w"])


def test_the_weight_multiplies_the_examples(update, view):
    # 30 * 0.5 = 15 against 5: 3/4 and 1/4 again.
    arrivals = [update("a", 5, [4.0, 0.0, -8.0], 30, 0.5), update("b", 0, [0.0, 8.0, 8.0], 5)]
    assert FedAvg().apply(arrivals, {}, view).delta["w"].tolist() == [3.0, 2.0, -4.0]


def test_the_server_rate_scales_the_mean(update, view):
    found = FedAvg(server_lr=0.5).apply([update("a", 0, [4.0, 0.0, -8.0])], {}, view)
    assert found.delta["w"].tolist() == [2.0, 0.0, -4.0]


@pytest.mark.parametrize("weights", [[], [0.0], [0.0, 0.0]])
def test_nothing_of_weight_is_no_change_and_no_division(update, view, weights):
    arrivals = [update(f"c{i}", 1, [1.0, 2.0, 3.0], 10, w) for i, w in enumerate(weights)]
    assert mean_delta(arrivals) is None
    assert FedAvg().apply(arrivals, {}, view).delta is None


def test_a_tiny_total_weight_still_divides_well(update, view):
    arrivals = [update("a", 9, [1.0, 2.0, 3.0], 1, 5e-324), update("b", 9, [1.0, 2.0, 3.0], 1, 0.0)]
    assert mean_delta(arrivals)["w"].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("rate", [0, -1.0, math.nan, math.inf])
def test_refuses_rates_that_make_no_sense(rate):
    with pytest.raises(ConfigError, match="server_lr"):
        FedAvg(server_lr=rate)
