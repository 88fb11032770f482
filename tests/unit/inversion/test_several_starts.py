"""Several starts of a cold fit, of which one goes on."""

import pytest
import torch
from torch import nn

import unstale as us
from unstale.inversion import Inversion, convert_many
from unstale.inversion.surrogate import STARTS
from unstale.seeding import generator
from unstale.training.local import local_update


@pytest.mark.parametrize("shape", [(5,), (2, 32), (1, 12, 12), (1, 4, 8, 8)])
def test_samples_of_the_start_classes_differ_and_lie_within_bounds(shape):
    inputs = us.InputSpec(shape=shape, classes=3, low=-1.0, high=1.0)
    start = STARTS["classes"](inputs, 7, 0.05, generator(0))
    assert start.x.shape == (7, *shape)
    assert start.x.min() >= -1
    assert start.x.max() <= 1
    assert start.labels.argmax(1).tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert torch.cdist(start.x.flatten(1), start.x.flatten(1)).fill_diagonal_(9).min() > 0.1
    again = STARTS["classes"](inputs, 7, 0.05, generator(0))
    assert torch.equal(start.x, again.x)


ALONE = ("grey", "classes", "gaussian")


def smooth_problem():
    """A smooth convolutional net whose inputs lie in [-1, 1], and one client of one class."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5, 2, 2), nn.ELU(), nn.Conv2d(6, 8, 3, 2, 1), nn.ELU(), nn.Flatten(),
        nn.Linear(8 * 9, 4),
    )  # fmt: skip
    rng = generator(1, "data")
    shapes = torch.randn(4, 1, 12, 12, generator=rng)
    x = (shapes[2] + 0.3 * torch.randn(30, 1, 12, 12, generator=rng)).clamp(-1, 1)
    return model, x, torch.full((30,), 2)


def test_clients_do_not_affect_each_others_race(problem):
    both = [problem.request(c, 20) for c in "ab"]
    settings = Inversion(iterations=40)
    together = convert_many(problem.model, both, settings=settings, **problem.parts)
    for request, found in zip(both, together, strict=True):
        (alone,) = convert_many(problem.model, [request], settings=settings, **problem.parts)
        assert alone.loss == pytest.approx(found.loss, rel=1e-2)
        assert len(alone.losses) == len(found.losses)


def test_the_trial_counts_as_part_of_the_iterations(problem):
    settings = Inversion(iterations=20, trial_iterations=15, patience=0)
    (found,) = convert_many(
        problem.model, [problem.request("a", 20)], settings=settings, **problem.parts
    )
    assert found.iterations == 20
    (short,) = convert_many(
        problem.model,
        [problem.request("a", 20)],
        settings=Inversion(iterations=5, trial_iterations=15),
        **problem.parts,
    )
    assert short.iterations == 5


def test_a_race_is_no_worse_than_its_first_start_on_a_smooth_net():
    model, x, y = smooth_problem()
    base = {n: p.detach() for n, p in model.named_parameters()}
    local = us.LocalSpec(lr=0.05, momentum=0.5, epochs=5)
    delta = local_update(model, base, x, y, local)
    inputs = us.InputSpec(shape=(1, 12, 12), classes=4, low=-1.0, high=1.0)
    losses = {}
    for start in ("auto", *ALONE):
        found = us.convert(
            model, base=base, current=base, delta=delta, local=local, inputs=inputs,
            num_examples=30, settings=Inversion(start=start, iterations=60),
        )  # fmt: skip
        losses[start] = found.loss
    assert losses["auto"] < 1.6 * min(losses[start] for start in ALONE)
