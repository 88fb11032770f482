"""The two sources of data: their objectives as printed, and inputs that do what they should."""

import dataclasses

import pytest
import torch
from late_world import INPUTS, LOCAL, samples
from torch.nn import functional as F

import unstale as us
from unstale.errors import ConfigError
from unstale.methods import DataFreeGenerator, DreamedInputs
from unstale.methods.comparators.dreams import continued, dream
from unstale.methods.comparators.generator import generate, initial, shapes, train_generator
from unstale.methods.comparators.priors import image_prior, likeness
from unstale.methods.comparators.teacher import Teacher
from unstale.params import add
from unstale.seeding import generator

LABELS = torch.tensor([0, 0, 1, 2, 2, 2])


@pytest.fixture
def teacher(world):
    """The model of a client that has learned all three classes."""
    x, y = (torch.cat(parts) for parts in zip(*(samples(c, "all") for c in range(3)), strict=True))
    recipe = dataclasses.replace(LOCAL, steps=80)
    delta = us.local_update(world.model, world.weights[3], x, y, recipe)
    return Teacher.of(world.model, world.weights[3], delta, LOCAL)


def noise(*shape, name="x"):
    return torch.rand(*shape, generator=generator(0, name))


def test_the_teacher_is_the_base_version_plus_the_update(world):
    update = world.update("s", 3)
    teacher = Teacher.of(world.model, world.weights[3], update.delta, LOCAL)
    x = noise(5, 4)
    wanted = torch.func.functional_call(world.model, add(world.weights[3], update.delta), (x,))
    assert torch.equal(teacher(x), wanted)
    assert torch.equal(teacher.loss(x, LABELS[:5]), F.cross_entropy(wanted, LABELS[:5]))


def test_the_image_prior_is_as_printed():
    inputs = us.InputSpec((2, 3, 4), classes=2, low=-1.0, high=3.0)
    x = noise(5, 2, 3, 4)
    u = x / 4  # the plain value is 0, the range 4
    tv = (u[:, :, 1:] - u[:, :, :-1]).abs().mean() + (u[..., 1:] - u[..., :-1]).abs().mean()
    wanted = 0.5 * tv + 2 * (u**2).mean()
    assert torch.allclose(image_prior(x, inputs, tv=0.5, l2=2.0), wanted)
    features = us.InputSpec((6,), classes=2)
    assert image_prior(noise(5, 6), features, tv=1.0, l2=0.0) == 0


def test_likeness_is_as_printed():
    x, z = noise(4, 2, 3), noise(4, 5, name="z")
    total = sum(
        (x[i] - x[j]).abs().mean() / 2 * (z[i] - z[j]).norm() for i in range(4) for j in range(4)
    )
    assert torch.allclose(likeness(x, z, unit=2.0), torch.exp(-total / 16))
    assert likeness(x, z, unit=2.0) < likeness(0.1 * x, z, unit=2.0) < 1


def test_the_first_loss_of_a_dream_is_its_objective(teacher):
    settings = DreamedInputs(iterations=1, tv=0.3, l2=0.2)
    x = noise(6, 4)
    after, losses = dream(teacher, x, LABELS, INPUTS, settings, generator(0))
    wanted = teacher.loss(x, LABELS) + image_prior(x, INPUTS, 0.3, 0.2)
    assert losses == pytest.approx([float(wanted)])
    # One step of Adam moves every entry by the step size, against its gradient.
    y = x.clone().requires_grad_()
    loss = teacher.loss(y, LABELS) + image_prior(y, INPUTS, 0.3, 0.2)
    (grad,) = torch.autograd.grad(loss, [y])
    assert torch.allclose(after, (x - 0.05 * grad.sign()).clamp(0, 1), atol=1e-4)


def test_dreams_are_classified_as_wanted_and_stay_within_bounds(teacher):
    settings = DreamedInputs(iterations=150, l2=0.0)
    x, losses = dream(teacher, noise(6, 4), LABELS, INPUTS, settings, generator(0))
    assert teacher(x).argmax(1).tolist() == LABELS.tolist()
    assert losses[-1] < losses[0]
    assert float(x.min()) >= 0
    assert float(x.max()) <= 1


def test_jitter_shifts_what_the_model_sees_and_nothing_else():
    """A model that looks at one place alone: with shifts all places are optimised."""

    class Corner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([1.0, -1.0]))

        def forward(self, x):
            return x[:, 0, :1] * self.weight

    inputs = us.InputSpec((1, 3), classes=2)
    one = torch.ones(2)
    seen = Teacher.of(Corner(), {"weight": one}, {"weight": torch.tensor([0.0, -2.0])}, LOCAL)
    start = torch.zeros(2, 1, 3)
    for jitter, moved in ((0, [True, False, False]), (1, [True, True, True])):
        settings = DreamedInputs(iterations=30, tv=0.0, l2=0.0, jitter=jitter)
        x, _ = dream(seen, start, torch.tensor([0, 1]), inputs, settings, generator(0))
        assert (x != 0).all(0)[0].tolist() == moved


def test_a_dream_goes_on_where_the_label_is_the_same():
    last = us.Surrogate(torch.ones(4, 2), 9 * F.one_hot(torch.tensor([0, 1, 1, 2])).float())
    found = continued(last, torch.zeros(3, 2), torch.tensor([0, 1, 2]))
    assert found[:, 0].tolist() == [1, 1, 0]
    found = continued(last, torch.zeros(6, 2), torch.tensor([0, 0, 1, 2, 2, 2]))
    assert found[:, 0].tolist() == [1, 0, 1, 1, 0, 0]


SMALL = DataFreeGenerator(hidden=16, noise=4)


@pytest.mark.parametrize(
    "inputs",
    [
        us.InputSpec((4,), 3, 0.0, 1.0),
        us.InputSpec((1, 2, 5), 3, -2.0, 6.0),
        us.InputSpec((3, 7), 3),
        us.InputSpec((4,), 3, low=0.0),
    ],
)
def test_generated_inputs_have_the_shape_and_the_bounds(inputs):
    weights = initial(SMALL, inputs, generator(0))
    weights = {name: 20 * p for name, p in weights.items()}
    x = generate(weights, noise(6, 4), LABELS, inputs)
    assert x.shape == (6, *inputs.shape)
    assert bool((inputs.clamp(x) == x).all())
    assert not torch.equal(x[0], x[1])  # other noise
    again = generate(weights, noise(6, 4), torch.tensor([2, 0, 1, 2, 2, 2]), inputs)
    assert not torch.equal(x[0], again[0])  # another label
    assert torch.equal(x[1], again[1])


def test_the_first_loss_of_a_generator_is_its_objective(teacher):
    settings = dataclasses.replace(SMALL, iterations=1, diversity=0.7, tv=0.3, l2=0.2)
    start = initial(settings, INPUTS, generator(0))
    _, losses = train_generator(teacher, start, LABELS, INPUTS, settings, generator(5))
    z = torch.randn(6, 4, generator=generator(5))
    x = generate(start, z, LABELS, INPUTS)
    wanted = teacher.loss(x, LABELS) + 0.7 * likeness(x, z, 1.0) + image_prior(x, INPUTS, 0.3, 0.2)
    assert losses == pytest.approx([float(wanted)])


def test_a_trained_generator_makes_what_the_client_classifies_as_wanted(teacher):
    settings = dataclasses.replace(SMALL, iterations=150, lr=0.01, l2=0.0)
    start = initial(settings, INPUTS, generator(0))
    before = {name: p.clone() for name, p in start.items()}
    weights, losses = train_generator(teacher, start, LABELS, INPUTS, settings, generator(0))
    assert all(torch.equal(start[name], before[name]) for name in start)
    assert shapes(weights) == shapes(start)
    x = generate(weights, noise(6, 4, name="new"), LABELS, INPUTS)
    assert teacher(x).argmax(1).tolist() == LABELS.tolist()
    assert losses[-1] < losses[0]


def test_the_diversity_term_makes_samples_differ(teacher):
    spread = []
    for weight in (0.0, 20.0):
        settings = dataclasses.replace(SMALL, iterations=100, lr=0.01, diversity=weight, l2=0.0)
        start = initial(settings, INPUTS, generator(0))
        weights, _ = train_generator(teacher, start, LABELS, INPUTS, settings, generator(0))
        z = torch.randn(32, 4, generator=generator(1))
        spread.append(float(generate(weights, z, torch.full((32,), 2), INPUTS).std(0).mean()))
    assert spread[1] > 2 * spread[0]


@pytest.mark.parametrize(
    ("cls", "settings"),
    [
        (DreamedInputs, {"iterations": 0}),
        (DreamedInputs, {"jitter": -1}),
        (DreamedInputs, {"tv": -0.1}),
        (DreamedInputs, {"lr": float("nan")}),
        (DreamedInputs, {"fallback": "guess"}),
        (DataFreeGenerator, {"noise": 0}),
        (DataFreeGenerator, {"hidden": 2.5}),
        (DataFreeGenerator, {"diversity": True}),
    ],
)
def test_what_cannot_be_is_refused(cls, settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        cls(**settings)


def test_a_model_that_does_not_fit_the_inputs_is_refused(world, teacher):
    with pytest.raises(ConfigError, match="inputs of the shape"):
        teacher.check(us.InputSpec((5,), 3))
    with pytest.raises(ConfigError, match="4 classes"):
        teacher.check(us.InputSpec((4,), 4))
