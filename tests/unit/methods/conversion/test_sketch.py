"""Sketches: short, linear, always the same, and near enough to measure angles by."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unstale.methods.conversion.sketch import SIZE, signed_places, sketch
from unstale.seeding import generator

LONG = 20_000


def drawn(name, *more, entries=LONG):
    return torch.randn(entries, generator=generator(0, "test", name, *more), dtype=torch.float64)


def normed(vector):
    return vector / vector.norm()


def at_angle(cosine, *names):
    """Two unit vectors of that cosine."""
    a = normed(drawn("a", *names))
    b = drawn("b", *names)
    b = normed(b - (b @ a) * a)
    return a, cosine * a + (1 - cosine**2) ** 0.5 * b


@pytest.mark.parametrize("cosine", [-0.5, 0.0, 0.5, 0.9, 1.0])
def test_inner_products_of_long_vectors_are_kept_to_a_few_percent(cosine):
    errors = []
    for i in range(10):
        a, b = at_angle(cosine, i)
        errors.append(float(sketch(a) @ sketch(b)) - cosine)
    bound = ((1 + cosine**2) / SIZE) ** 0.5  # one standard deviation: 0.022 to 0.031
    assert max(map(abs, errors)) < 4 * bound
    assert abs(sum(errors) / 10) < 2 * bound, "without a bias"
    assert any(errors), "or it was no sketch"


def test_entries_of_one_sign_do_not_add_up():
    """Without signs of their own, entries that share a place would: here to 6.8, not 0.64."""
    a, b = (normed(drawn(name).abs()) for name in "ab")
    assert abs(float(sketch(a) @ sketch(b)) - float(a @ b)) < 0.1


def test_by_its_formula():
    vector = drawn("formula", entries=11)
    places = signed_places(11, 4)
    wanted = torch.zeros(4, dtype=torch.float64)
    for value, place in zip(vector, places.tolist(), strict=True):
        wanted[place % 4] += value if place < 4 else -value
    assert torch.allclose(sketch(vector, 4), wanted, rtol=0, atol=1e-14)


@pytest.mark.parametrize("entries", [1, SIZE - 1, SIZE])
def test_what_is_short_stays_as_it_is(entries):
    vector = drawn("short", entries=entries).float()
    assert torch.equal(sketch(vector), vector.double())
    assert len(sketch(drawn("long", entries=SIZE + 1))) == SIZE


def test_the_same_in_every_process_and_whatever_was_drawn_before():
    vector = drawn("same")
    first, places = sketch(vector), signed_places(LONG, SIZE)
    signed_places.cache_clear()  # as a process that goes on from a checkpoint
    torch.rand(3, generator=generator(0, "other"))
    assert torch.equal(signed_places(LONG, SIZE), places)
    assert torch.equal(sketch(vector), first)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2 if threads == 1 else 1)
        assert torch.equal(sketch(vector), first)
    finally:
        torch.set_num_threads(threads)
    assert signed_places(LONG, SIZE)[:4].tolist() == GOLDEN


# Checkpoints hold sketches: another draw would make nonsense of them.
GOLDEN = [641, 1931, 3530, 2078]


def test_places_and_signs_are_evenly_drawn():
    places = signed_places(LONG, 8)
    counts = torch.bincount(places, minlength=16)
    assert len(counts) == 16
    assert int((counts - LONG / 16).abs().max()) < 5 * (LONG / 16) ** 0.5
    assert not torch.equal(signed_places(LONG, 8)[:100], signed_places(LONG + 1, 8)[:100])


entries = st.floats(-100, 100)
vectors = st.lists(entries, min_size=12, max_size=12).map(
    lambda v: torch.tensor(v, dtype=torch.float64)
)


@given(vectors, vectors, entries, st.integers(2, 12))
def test_it_is_linear(a, b, factor, size):
    together = sketch(a + factor * b, size)
    assert torch.allclose(together, sketch(a, size) + factor * sketch(b, size), atol=1e-9)


def test_the_vector_is_left_alone_and_no_gradient_follows():
    vector = drawn("alone").requires_grad_()
    before = vector.detach().clone()
    assert not sketch(vector).requires_grad
    assert torch.equal(vector.detach(), before)
