"""Disparities against their formulas, on tensors that can be checked by hand."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unstale.errors import ConfigError, UnknownNameError
from unstale.inversion.objective import DISPARITIES, disparity_of, entropy, total_variation

V = torch.tensor([1.0, 2.0, 0.0])
T = torch.tensor([3.0, 0.0, 4.0])
MASK = torch.tensor([True, False, True])
# name -> over all entries, over the mask
BY_HAND = {
    "l1": ((2 + 2 + 4) / 7, (2 + 4) / 7),
    "l2": (math.sqrt(4 + 4 + 16) / 5, math.sqrt(4 + 16) / 5),
    "cosine": (1 - 3 / (math.sqrt(5) * 5), 1 - 3 / (1 * 5)),
}


@pytest.mark.parametrize("name", sorted(DISPARITIES))
def test_formula(name):
    whole, masked = BY_HAND[name]
    assert float(disparity_of(name)(V, T, None)) == pytest.approx(whole, rel=1e-6)
    assert float(disparity_of(name)(V, T, MASK)) == pytest.approx(masked, rel=1e-6)


def test_sums_add_their_terms():
    expected = BY_HAND["l1"][1] + BY_HAND["cosine"][1]
    assert float(disparity_of("l1+cosine")(V, T, MASK)) == pytest.approx(expected, rel=1e-6)
    assert float(disparity_of(" l1 + cosine ")(V, T, MASK)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", sorted(DISPARITIES))
@pytest.mark.parametrize("size", [1e-25, 1e-3, 1e25])
def test_the_scale_of_the_target_does_not_matter(name, size):
    whole, masked = BY_HAND[name]
    disparity = disparity_of(name)
    assert float(disparity(V * size, T * size, None)) == pytest.approx(whole, rel=1e-5)
    assert float(disparity(V * size, T * size, MASK)) == pytest.approx(masked, rel=1e-5)


@pytest.mark.parametrize("name", sorted(DISPARITIES))
def test_perfect_is_zero_and_no_change_is_one(name):
    disparity = disparity_of(name)
    assert float(disparity(T, T, None)) == pytest.approx(0, abs=1e-6)
    assert float(disparity(torch.zeros(3), T, None)) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("name", [*sorted(DISPARITIES), "l1+l2+cosine"])
@pytest.mark.parametrize("value", [T, torch.zeros(3), V])
def test_gradients_are_finite_and_zero_outside_the_mask(name, value):
    value = value.clone().requires_grad_()
    (grad,) = torch.autograd.grad(disparity_of(name)(value, T, MASK), value)
    assert torch.isfinite(grad).all()
    assert grad[1] == 0


@settings(deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=6, max_size=6), st.sampled_from(sorted(DISPARITIES)))
def test_rows_are_independent(values, name):
    rows = torch.tensor(values).view(2, 3)
    together = disparity_of(name)(rows, T.expand(2, 3), None)
    alone = torch.stack([disparity_of(name)(row, T, None) for row in rows])
    torch.testing.assert_close(together, alone)


def test_unknown_names_name_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'cosine'"):
        disparity_of("l1+cosin")
    with pytest.raises(ConfigError, match="Use one or more of: cosine, l1, l2"):
        disparity_of("")


def test_total_variation_of_images_signals_and_features():
    image = torch.tensor([[0.0, 1.0], [0.0, 3.0]]).view(1, 1, 2, 2)
    assert float(total_variation(image, (1, 2, 2))) == (0 + 2) / 2 + (1 + 3) / 2
    signal = torch.tensor([[0.0, 2.0, 3.0], [9.0, 9.0, 9.0]]).view(1, 2, 3)
    assert float(total_variation(signal, (2, 3))) == (2 + 1) / 4
    assert float(total_variation(torch.tensor([[0.0, 5.0]]), (2,))) == 0
    clients = torch.stack([signal, 2 * signal])
    assert total_variation(clients, (2, 3)).tolist() == [0.75, 1.5]


def test_entropy_of_soft_labels():
    even, sure = torch.zeros(4), torch.tensor([0.0, 0.0, 0.0, 200.0])
    assert float(entropy(torch.stack([even, sure]))) == pytest.approx(math.log(4) / 2)
    mixed = torch.tensor([[0.25, 0.75]]).log()
    by_hand = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert float(entropy(mixed)) == pytest.approx(by_hand)
    assert entropy(torch.zeros(3, 5, 2)).shape == (3,), "one number for each data set"
