"""Masks keep exactly the largest entries."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unstale.errors import ConfigError
from unstale.inversion.target import num_kept, target_of, top_mask


@settings(deadline=None)
@given(
    st.lists(st.integers(-4, 4), min_size=1, max_size=40),
    st.sampled_from([0.3, 0.5, 0.95, 0.99]),
)
def test_exactly_the_largest_are_kept(values, rate):
    vector = torch.tensor(values, dtype=torch.float32)
    mask = top_mask(vector, rate)
    assert int(mask.sum()) == num_kept(len(values), rate) >= 1
    if not mask.all():
        assert vector[mask].abs().min() >= vector[~mask].abs().max()


def test_count_is_of_the_whole_vector():
    assert num_kept(1000, 0.95) == 50
    assert num_kept(1000, 0.0) == 1000
    assert num_kept(3, 0.99) == 1


def test_ties_keep_the_first():
    assert top_mask(torch.ones(6), 0.5).tolist() == [True] * 3 + [False] * 3


def test_zero_is_off():
    assert top_mask(torch.ones(6), 0.0) is None


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_bad_rates_are_refused(rate):
    with pytest.raises(ConfigError, match="sparsity"):
        top_mask(torch.ones(2), rate)


def test_noise_on_the_target_is_of_its_variance_and_always_the_same():
    rng = torch.Generator().manual_seed(0)
    delta = {"w": torch.randn(100, 100, generator=rng), "b": torch.randn(50, generator=rng)}
    plain = target_of({}, delta, ("w", "b"), 0.95)
    noisy = target_of({}, delta, ("w", "b"), 0.95, 1e-3)
    noise = noisy.delta - plain.delta
    assert float(noise.var()) == pytest.approx(1e-3, rel=0.1)
    assert torch.equal(noisy.mask, plain.mask), "the entries are chosen before noise is added"
    assert torch.equal(target_of({}, delta, ("w", "b"), 0.95, 1e-3).delta, noisy.delta)
    other = {**delta, "b": delta["b"] + 1}
    assert not torch.equal(target_of({}, other, ("w", "b"), 0, 1e-3).delta[:9], noisy.delta[:9])
