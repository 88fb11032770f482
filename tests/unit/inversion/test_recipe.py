"""The recipe of a surrogate: smaller batches, and fewer steps that go as far."""

import dataclasses
from collections import Counter

import pytest
import torch
from torch import nn

import unstale as us
from unstale.inversion.recipe import surrogate_recipe

CLIENT = us.LocalSpec(lr=0.01, momentum=0.9, epochs=5, batch_size=20)


def moved(local: us.LocalSpec) -> torch.Tensor:
    """Return how far the weights go under the same gradient in every step."""
    model = nn.Linear(2, 1, bias=False)
    start = {"weight": torch.zeros(1, 2, dtype=torch.float64)}
    x = torch.ones(60, 2, dtype=torch.float64)
    spec = dataclasses.replace(local, loss=lambda outputs, _: outputs.mean())
    return us.local_update(model, start, x, torch.zeros(60).long(), spec)["weight"]


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("most", [1, 7, 20])
def test_fewer_steps_go_as_far(momentum, most):
    client = dataclasses.replace(CLIENT, momentum=momentum)
    whole = surrogate_recipe(client, 120, 60)
    short = surrogate_recipe(client, 120, 60, max_steps=most)
    assert (whole.steps, short.steps) == (30, most)
    torch.testing.assert_close(moved(short), moved(whole), rtol=1e-9, atol=0)


def test_momentum_is_remembered_as_long():
    short = surrogate_recipe(CLIENT, 120, 60, max_steps=10)
    assert short.momentum == pytest.approx(0.9**3)  # one step stands for three


@pytest.mark.parametrize(("most", "size"), [(30, 10), (20, 15), (15, 20), (10, 30)])
def test_samples_are_used_as_often(most, size):
    short = surrogate_recipe(CLIENT, 120, 60, max_steps=most)
    assert (short.steps, short.batch_size) == (most, size)
    used = Counter(i for batch in short.batches(60, None) for i in batch.tolist())
    assert set(used.values()) == {5}  # as often as the client's


def test_batches_of_a_pass_are_rounded():
    short = surrogate_recipe(CLIENT, 450, 128, max_steps=20)  # 115 steps; 23 batches a pass
    assert (short.steps, short.batch_size) == (20, 32)
    short = surrogate_recipe(CLIENT, 120, 60, max_steps=13)
    assert (short.steps, short.batch_size) == (13, 20)


@pytest.mark.parametrize("most", [7, 5, 3])
def test_one_batch_a_pass_takes_all_samples(most):
    short = surrogate_recipe(CLIENT, 120, 60, max_steps=most)
    assert (short.steps, short.batch_size) == (most, None)


def test_short_recipes_and_adam_stay_as_they_are():
    assert surrogate_recipe(CLIENT, 120, 60, max_steps=30) == surrogate_recipe(CLIENT, 120, 60)
    adam = us.LocalSpec(lr=0.01, optimizer="adam", epochs=5, batch_size=20)
    assert surrogate_recipe(adam, 120, 60, max_steps=10) == surrogate_recipe(adam, 120, 60)
    full = us.LocalSpec(lr=0.01, steps=40)
    short = surrogate_recipe(full, 120, 60, max_steps=10)
    assert (short.steps, short.batch_size, short.lr) == (10, None, pytest.approx(0.04))
