"""Distances between updates, against numbers that were computed by hand."""

import math

import pytest
import torch

from unstale.check import Errors, errors_of


def params(*values):
    """Spread over two tensors: distances are over all weights together."""
    return {"a": torch.tensor(values[:1]), "b": torch.tensor(values[1:]).unsqueeze(0)}


def close(errors, **expected):
    for name, value in expected.items():
        assert getattr(errors, name) == pytest.approx(value, abs=1e-7), name


def test_the_truth_has_no_error():
    close(errors_of(params(3.0, -4.0), params(3.0, -4.0)), cosine=0, l1=0, l2=0, norms=1)


def test_by_hand():
    # v·t = 3·4 + 4·3 = 24, both of length 5; v − t = (−1, 1).
    found = errors_of(params(3.0, 4.0), params(4.0, 3.0))
    close(found, cosine=1 - 24 / 25, l1=2 / 7, l2=math.sqrt(2) / 5, norms=1)


def test_a_longer_update_points_the_same_way():
    close(errors_of(params(6.0, 8.0), params(3.0, 4.0)), cosine=0, l1=1, l2=1, norms=2)


def test_an_opposite_update():
    close(errors_of(params(-3.0, 0.0), params(3.0, 0.0)), cosine=2, l1=2, l2=2, norms=1)


def test_an_empty_update_has_no_direction():
    close(errors_of(params(0.0, 0.0), params(3.0, 4.0)), cosine=1, l1=1, l2=1, norms=0)


def test_there_is_no_distance_from_nothing():
    found = errors_of(params(3.0, 4.0), params(0.0, 0.0))
    assert all(math.isnan(getattr(found, name)) for name in Errors.__slots__)


def test_rounding_gives_no_negative_distance():
    third = params(1 / 3, 1 / 3, 1 / 3)
    twice = {name: 1.1 * value for name, value in third.items()}
    assert errors_of(twice, third).cosine >= 0


def test_small_differences_are_not_lost_in_single_precision():
    one, near = torch.ones(1000), torch.ones(1000)
    near[0] = 1.01
    found = errors_of({"w": near}, {"w": one})
    # sin²/2 of the angle: 0.01² · (1/1000 − 1/1000²) / 2 to first order.
    assert found.cosine == pytest.approx(0.01**2 / 2000, rel=0.05)
