"""Stacked clients train as `local_update` trains each, and read nothing that they are not given."""

import pytest
import torch
from torch import nn

from unstale import models
from unstale.params import params_of
from unstale.training import LocalSpec, local_update
from unstale.training.tensor_fields import tensors_of
from unstale.training.tensor_reads import tensors_read
from unstale.training.vectorised import (
    StackedClients,
    StackedTraining,
    ordered_batches,
    shuffled_batches,
)

RECIPES = {
    "full batch": LocalSpec(lr=0.1, momentum=0.5, epochs=3),
    "mini-batches": LocalSpec(lr=0.1, epochs=2, batch_size=4),
    "adam": LocalSpec(lr=0.01, optimizer="adam", steps=3, batch_size=4),
    "prox": LocalSpec(lr=0.1, prox=0.5, weight_decay=0.1, epochs=3),
}
CPU = torch.device("cpu")


class Scaled(nn.Module):
    """A model with a buffer."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 3)
        self.register_buffer("scale", torch.linspace(0.5, 2, 6))

    def forward(self, x):
        return self.linear(x * self.scale)


def clients(model, shape, batches=(), count=3, samples=10):
    rng = torch.Generator().manual_seed(0)
    weights = {
        n: p + 0.1 * torch.randn(count, *p.shape, generator=rng, dtype=p.dtype)
        for n, p in params_of(model).items()
    }
    dtype = next(model.parameters()).dtype
    x = torch.randn(count, samples, *shape, generator=rng, dtype=dtype)
    y = torch.randint(0, 3, (count, samples), generator=rng)
    return StackedClients(weights, dict(model.named_buffers()), x, y, batches)


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("shuffled", [False, True])
def test_equals_local_update(name, shuffled):
    model, spec = Scaled().double(), RECIPES[name]

    def generators():
        return [torch.Generator().manual_seed(i) if shuffled else None for i in range(3)]

    if shuffled:
        batches = shuffled_batches(spec, 10, generators(), CPU)
    else:
        batches = ordered_batches(spec, 10, CPU)
    assert len(batches) == (0 if spec.batch_size is None else spec.num_steps(10))
    given = clients(model, (6,), batches)
    trained = StackedTraining(model, spec)(given)
    for i, generator in enumerate(generators()):
        start = {n: w[i] for n, w in given.weights.items()}
        wanted = local_update(model, start, given.x[i], given.y[i], spec, generator)
        for n, delta in wanted.items():
            torch.testing.assert_close(trained[n][i] - start[n], delta, rtol=0, atol=1e-12)


def test_buffers_are_those_given_not_the_models():
    model, spec = Scaled().double(), RECIPES["full batch"]
    given = clients(model, (6,))
    train = StackedTraining(model, spec)
    before = train(given)
    model.scale.mul_(3)
    given.buffers["scale"].div_(3)  # the same memory: as it was
    torch.testing.assert_close(train(given), before)
    copied = {"scale": model.scale.clone()}
    model.scale.zero_()
    given = StackedClients(given.weights, copied, given.x, given.y)
    torch.testing.assert_close(train(given), before)


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("kind", ["scaled", "lenet", "cnn1d"])
@pytest.mark.parametrize("frozen", [False, True])
def test_reads_nothing_that_it_is_not_given(name, kind, frozen):
    shape = {"scaled": (6,), "lenet": (1, 16, 16), "cnn1d": (16,)}[kind]
    model = Scaled() if kind == "scaled" else models.build(kind, shape, 3)
    next(model.parameters()).requires_grad_(not frozen)
    spec = RECIPES[name]
    given = clients(model, shape, ordered_batches(spec, 5, CPU), samples=5)
    train = StackedTraining(model, spec)
    assert tensors_read(lambda: train(given), tensors_of(given)) == []
    without = [t for t in tensors_of(given) if t is not given.x]
    (found,) = tensors_read(lambda: train(given), without)
    assert found.data_ptr() == given.x.data_ptr()


def test_what_a_model_hides_is_found():
    class Hides(nn.Linear):
        def __init__(self):
            super().__init__(6, 3)
            self.shift = torch.ones(6)

        def forward(self, x):
            return super().forward(x + self.shift)

    model = Hides()
    given = clients(model, (6,))
    (found,) = tensors_read(
        lambda: StackedTraining(model, RECIPES["full batch"])(given), tensors_of(given)
    )
    assert found.data_ptr() == model.shift.data_ptr()
