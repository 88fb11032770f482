"""What a client does to its update before it is sent, each step against its formula."""

import math

import pytest
import torch

import unstale as us
from unstale.errors import ConfigError
from unstale.params import flatten, norm
from unstale.privacy.protection import clipped, protect, sparsified, with_noise
from unstale.seeding import generator

DELTA = {"w": torch.tensor([[3.0, -0.1], [0.2, -4.0]]), "b": torch.tensor([0.3, 0.0])}


def rng(*names):
    return generator(0, "test", *names)


def same(a, b):
    return list(a) == list(b) and all(torch.equal(a[name], b[name]) for name in a)


def test_only_the_largest_entries_of_the_whole_update_are_left():
    found = sparsified(DELTA, 0.5)
    assert torch.equal(found["w"], torch.tensor([[3.0, 0.0], [0.0, -4.0]]))
    assert torch.equal(found["b"], torch.tensor([0.3, 0.0]))
    assert same(sparsified(DELTA, 0.0), DELTA)


def test_a_long_update_is_scaled_and_a_short_one_is_not():
    size = math.sqrt(9 + 0.01 + 0.04 + 16 + 0.09)
    found = clipped(DELTA, 1.0)
    assert torch.allclose(found["w"], DELTA["w"] / size)
    assert norm(found) == pytest.approx(1.0, rel=1e-6)
    assert same(clipped(DELTA, size + 1e-3), DELTA)
    assert same(clipped(DELTA, None), DELTA)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_not_let_through_where_it_is_clipped(bad):
    found = clipped({"w": torch.tensor([1.0, bad])}, 1.0)
    assert torch.equal(found["w"], torch.zeros(2))


def test_noise_has_the_variance_that_is_asked_for_in_every_entry():
    zero = {"a": torch.zeros(200, 100), "b": torch.zeros(3000, dtype=torch.float64)}
    found = with_noise(zero, math.sqrt(1e-3), rng("noise"))
    for name, noise in found.items():
        assert noise.dtype == zero[name].dtype
        assert abs(float(noise.mean())) < 5 * math.sqrt(1e-3 / noise.numel())
        assert float(noise.var()) == pytest.approx(1e-3, rel=0.1)
    assert (flatten(found) != 0).all(), "entries that are zero get noise as well"
    assert same(with_noise(DELTA, 0.0, rng("none")), DELTA)


def test_the_order_is_sparsify_clip_noise():
    settings = us.Protection(sparsity=0.5, clip=2.0, noise_multiplier=0.5)
    found = protect(DELTA, settings, rng("all"))
    wanted = with_noise(clipped(sparsified(DELTA, 0.5), 2.0), 1.0, rng("all"))
    assert same(found, wanted)
    bare = us.Protection(sparsity=0.5, clip=2.0)
    assert norm(protect(DELTA, bare, rng())) == pytest.approx(2.0, rel=1e-6)


def test_the_same_purpose_gives_the_same_noise_and_nothing_is_changed_in_place():
    before = {name: p.clone() for name, p in DELTA.items()}
    settings = us.Protection(sparsity=0.5, clip=1.0, noise_variance=1e-3)
    assert same(protect(DELTA, settings, rng(1)), protect(DELTA, settings, rng(1)))
    assert not same(protect(DELTA, settings, rng(1)), protect(DELTA, settings, rng(2)))
    assert same(DELTA, before)


def test_what_the_settings_say_of_themselves():
    assert not us.Protection().enabled
    paper = us.Protection(sparsity=0.95, noise_variance=1e-3)
    assert paper.enabled
    assert not paper.is_private, "without a bound on its size an update cannot be hidden by noise"
    assert paper.noise_std == pytest.approx(math.sqrt(1e-3))
    assert us.Protection(clip=2.0, noise_multiplier=1.5).noise_std == 3.0
    assert us.Protection(clip=2.0, noise_variance=1.0).is_private
    assert not us.Protection(clip=2.0).is_private


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sparsity": 1.0}, r"`sparsity` should be in \[0, 1\)"),
        ({"clip": 0.0}, "`clip` should be above 0"),
        ({"noise_variance": -1e-3}, "`noise_variance` should be at least 0"),
        ({"noise_multiplier": math.inf, "clip": 1.0}, "finite"),
        ({"noise_multiplier": 1.0}, "should come with `clip`"),
        ({"noise_multiplier": 1.0, "noise_variance": 1.0, "clip": 1.0}, "not by both"),
        ({"delta": 0.0}, r"`delta` should be in \(0, 1\)"),
    ],
)
def test_wrong_settings(settings, said):
    with pytest.raises(ConfigError, match=said):
        us.Protection(**settings)
