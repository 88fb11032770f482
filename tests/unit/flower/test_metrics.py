"""Means of what clients measured."""

from unstale.flower.metrics import mean_metrics


def test_no_metrics_have_no_mean():
    assert mean_metrics([]) is None
    assert mean_metrics([(3, {})]) is None


def test_a_mean_that_overflows_is_left_out():
    found = mean_metrics([(2**53, {"a": 9e299, "b": 1.0}), (2**53, {"a": 9e299, "b": 3.0})])
    assert dict(found) == {"b": 2.0}
