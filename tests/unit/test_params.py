"""Arithmetic over named tensors, by hand, and that it never touches its arguments."""

import math

import pytest
import torch
from torch import nn

from unstale import params as P
from unstale.errors import ConfigError


@pytest.fixture
def a():
    return {"w": torch.tensor([1.0, 2.0]), "b": torch.tensor([[3.0]])}


@pytest.fixture
def b():
    return {"b": torch.tensor([[1.0]]), "w": torch.tensor([10.0, -2.0])}


def lists(params):
    return {name: p.tolist() for name, p in params.items()}


def test_arithmetic_goes_by_name_not_by_order(a, b):
    before = lists(a), lists(b)
    assert lists(P.add(a, b)) == {"w": [11.0, 0.0], "b": [[4.0]]}
    assert lists(P.add(a, b, scale=-0.5)) == {"w": [-4.0, 3.0], "b": [[2.5]]}
    assert lists(P.subtract(a, b)) == {"w": [-9.0, 4.0], "b": [[2.0]]}
    assert lists(P.scale(a, 2)) == {"w": [2.0, 4.0], "b": [[6.0]]}
    assert lists(P.zeros_like(a)) == {"w": [0.0, 0.0], "b": [[0.0]]}
    assert lists(P.weighted_mean([a, b], [3, 1])) == {"w": [3.25, 1.0], "b": [[2.5]]}
    assert (lists(a), lists(b)) == before


def test_the_mean_of_one_is_itself_and_no_alias(a):
    mean = P.weighted_mean([a], [7])
    assert lists(mean) == lists(a)
    mean["w"].zero_()
    assert a["w"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(("items", "weights"), [(0, []), (1, [0.0]), (2, [0.0, 0.0])])
def test_a_mean_of_nothing_is_an_error(a, items, weights):
    with pytest.raises(ConfigError, match="more than zero"):
        P.weighted_mean([a] * items, weights)


def test_a_mean_needs_one_weight_per_item(a):
    with pytest.raises(ValueError, match="shorter"):
        P.weighted_mean([a, a], [1.0])


def test_norm_cosine_and_size(a):
    assert P.norm(a) == pytest.approx(math.sqrt(14))
    assert P.norm({"w": torch.full((2,), 1e30)}) == pytest.approx(math.sqrt(2) * 1e30)
    assert P.num_bytes(a) == 12
    assert P.num_bytes(P.scale({n: p.double() for n, p in a.items()}, 1)) == 24
    assert P.flatten(a).tolist() == [1.0, 2.0, 3.0]
    assert P.cosine_distance(a, P.scale(a, 5.0)) == pytest.approx(0, abs=1e-12)
    assert P.cosine_distance(a, P.scale(a, -1.0)) == pytest.approx(2)
    assert P.cosine_distance(a, P.zeros_like(a)) == 1.0


def test_the_relative_l1_error_by_hand(a):
    other = {name: p + 0.5 for name, p in a.items()}
    assert P.l1_error(other, a) == pytest.approx(3 * 0.5 / 6)
    assert P.l1_error(a, a) == 0
    assert P.l1_error(P.zeros_like(a), a) == 1
    assert P.l1_error(P.scale(a, -1.0), a) == 2
    assert math.isnan(P.l1_error(a, P.zeros_like(a)))
    large = {"w": torch.full((2,), 1e38)}  # whose sum single precision does not hold
    assert P.l1_error(P.scale(large, 3.0), large) == pytest.approx(2)


def test_copies_are_copies_and_carry_no_graph():
    model = nn.Linear(2, 1)
    for copy in (P.params_of(model), P.clone(dict(model.named_parameters()))):
        assert set(copy) == {"weight", "bias"}
        assert not any(p.requires_grad for p in copy.values())
        copy["bias"].fill_(99.0)
        assert model.bias.item() != 99.0


def test_to_device_keeps_names_and_values(a):
    assert lists(P.to_device(a, "cpu")) == lists(a)
