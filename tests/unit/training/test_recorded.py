"""Conversions and cohorts replayed from a tape, as a GPU replays graphs: equal to the bit.

The tape reads memory by address and fails where it was freed, so these tests fail on a
CPU where a graph would read garbage on a GPU. `tests/gpu` has the same on CUDA.
"""

import gc
from dataclasses import replace

import pytest
import torch
from torch import nn

import unstale as us
from unstale.inversion import InputSpec, Inversion, Request, convert_many
from unstale.inversion.solver import GRAPHS as SOLVES
from unstale.params import params_of
from unstale.sim import Work, train_cohort
from unstale.sim.training import GRAPHS as COHORTS
from unstale.training.graph_recorder import recording_by

RECIPES = {
    "full batch": us.LocalSpec(lr=0.1, momentum=0.5, epochs=3),
    "mini-batches": us.LocalSpec(lr=0.1, epochs=2, batch_size=4),
    "adam": us.LocalSpec(lr=0.01, optimizer="adam", steps=3, batch_size=4),
    "prox": us.LocalSpec(lr=0.1, prox=0.5, epochs=3),
}
SETTINGS = Inversion(
    iterations=6, warm_iterations=4, min_samples=5, patience=2, restart_loss=0, max_loss=9
)


class Scaled(nn.Module):
    """A model with a buffer."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 3)
        self.register_buffer("scale", torch.linspace(0.5, 2, 8))

    def forward(self, x):
        return self.linear(x * self.scale)


@pytest.fixture
def model():
    return Scaled()


def works(model, seed, count=3):
    rng = torch.Generator().manual_seed(seed)
    return [
        Work(
            {n: p + 0.1 * torch.randn(p.shape, generator=rng) for n, p in params_of(model).items()},
            torch.randn(10, 8, generator=rng),
            torch.randint(0, 3, (10,), generator=rng),
            torch.Generator().manual_seed(seed + i),
        )
        for i in range(count)
    ]


ALONG = replace(SETTINGS, path="along")
SHORT = replace(SETTINGS, max_steps=3)


def convert(model, spec, seed, warm=(), settings=SETTINGS):
    """Convert three clients' updates; return deltas and surrogates."""
    work = works(model, seed)
    deltas = train_cohort(model, work, spec, batched=False)
    requests = [
        Request(w.params, d, 10, seed=i, warm=warm[i] if warm else None)
        for i, (w, d) in enumerate(zip(work, deltas, strict=True))
    ]
    current = works(model, seed + 50)[0].params
    inputs = InputSpec((8,), 3)
    found = convert_many(
        model, requests, current=current, local=spec, inputs=inputs, settings=settings
    )
    assert all(f.ok for f in found), [f.reason for f in found]
    return found


def allocate():
    """Free what can be freed, and write over it."""
    gc.collect()
    for size in (4, 10, 24, 80, 240):
        for _ in range(20):
            torch.full((size,), -1)
            torch.full((size,), torch.nan)


def assert_equal(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        assert a.losses == b.losses
        assert all(torch.equal(a.delta[n], b.delta[n]) for n in b.delta)
        assert torch.equal(a.surrogate.x, b.surrogate.x)


@pytest.mark.parametrize("name", RECIPES)
def test_conversions_in_a_row_equal_eager_ones(name, model, tape):
    spec = RECIPES[name]
    for seed in range(3):
        eager = convert(model, spec, seed)
        with recording_by(tape):
            allocate()
            assert_equal(convert(model, spec, seed), eager)
    assert tape.recorded == 1
    assert all(not recording.others for recording in SOLVES.recordings(model))


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("settings", [ALONG, SHORT], ids=["along", "max_steps"])
def test_so_they_do_along_the_path_and_shortened(name, settings, model, tape):
    spec = RECIPES[name]
    for seed in range(2):
        eager = convert(model, spec, seed, settings=settings)
        with recording_by(tape):
            allocate()
            assert_equal(convert(model, spec, seed, settings=settings), eager)
    assert tape.recorded == 1
    assert all(not recording.others for recording in SOLVES.recordings(model))


def test_paths_and_precisions_are_recorded_apart(model, tape):
    spec = RECIPES["full batch"]
    with recording_by(tape):
        found = [
            convert(model, spec, 0, settings=settings)
            for settings in (SETTINGS, ALONG, replace(SETTINGS, precision="tf32"))
        ]
    assert tape.recorded == 3
    assert found[0][0].losses != found[1][0].losses


def test_a_warm_conversion_equals_an_eager_one(model, tape):
    spec = RECIPES["mini-batches"]
    for seed in range(2):
        first = [c.surrogate for c in convert(model, spec, seed)]
        eager = convert(model, spec, seed, warm=first)
        assert all(c.warm for c in eager)
        with recording_by(tape):
            assert_equal(convert(model, spec, seed), convert(model, spec, seed))
            assert_equal(convert(model, spec, seed, warm=first), eager)
    assert tape.recorded == 2  # cold and warm ones differ in their number of iterations


def test_a_changed_buffer_is_seen_by_conversions(model, tape):
    spec, found = RECIPES["full batch"], []
    for factor in (1.0, 3.0):
        model.scale = model.scale * factor  # another tensor; the first one is freed
        eager = convert(model, spec, 0)
        with recording_by(tape):
            allocate()
            found.append(convert(model, spec, 0))
        assert_equal(found[-1], eager)
    assert tape.recorded == 1
    assert found[0][0].losses != found[1][0].losses


@pytest.mark.parametrize("name", RECIPES)
def test_cohorts_in_a_row_equal_eager_ones(name, model, tape):
    spec = RECIPES[name]
    for seed in range(4):
        if seed == 3:
            model.scale = model.scale * 3
        eager = train_cohort(model, works(model, seed), spec, batched=True)
        with recording_by(tape):
            allocate()
            found = train_cohort(model, works(model, seed), spec, batched=True)
        for a, b in zip(found, eager, strict=True):
            assert all(torch.equal(a[n], b[n]) for n in b)
    assert tape.recorded == 1
    assert all(not recording.others for recording in COHORTS.recordings(model))


def test_class_weights_of_a_loss_are_kept(model, tape):
    """A tensor of the caller's that no input names."""

    def spec_of(weights):
        return us.LocalSpec(
            lr=0.1, steps=2, loss=lambda out, y: nn.functional.cross_entropy(out, y, weights)
        )

    spec = spec_of(torch.tensor([1.0, 2.0, 5.0]))
    eager = train_cohort(model, works(model, 0), spec, batched=True)
    with recording_by(tape):
        for _ in range(2):
            train_cohort(model, works(model, 0), spec, batched=True)
        (recording,) = COHORTS.recordings(model)
        assert [t.tolist() for t in recording.others] == [[1.0, 2.0, 5.0]]
        allocate()
        found = train_cohort(model, works(model, 0), spec, batched=True)
    assert all(torch.equal(a[n], b[n]) for a, b in zip(found, eager, strict=True) for n in b)
