"""Cohorts trained from a CUDA graph equal eager ones on the GPU, and those on a CPU.

Bounds, with their reasons:

- *Recorded and eager* run the same kernels in the same order: equal to the bit.
- *GPU and CPU, stacked and one by one* sum in another order: rounding, which a few steps
  of SGD hardly amplify. A client's Adam divides by the size of each gradient, so that
  rounding counts in full where a gradient is near zero.
"""

import logging
from dataclasses import dataclass

import pytest
import torch

from unstale.params import norm, subtract
from unstale.sim import train_cohort
from unstale.sim.training import GRAPHS, WORTH_A_STREAM
from unstale.training import LocalSpec
from unstale.training.graph_recorder import recording_by

SGD = 1e-3  # of a delta's norm
BY_ADAM = 3e-2


PLAIN = LocalSpec(lr=0.01, epochs=3)


@dataclass(frozen=True)
class Case:
    model: str = "lenet"
    clients: int = 10
    samples: int = 20
    spec: LocalSpec = PLAIN
    bound: float = SGD


BATCHES = LocalSpec(lr=0.01, momentum=0.5, epochs=2, batch_size=6)
CASES = {
    "full batch, 1 client": Case(clients=1),
    "full batch, 10 clients": Case(),
    "on streams, 10 clients": Case(samples=WORTH_A_STREAM),
    "on streams, more clients than streams": Case(clients=12, samples=WORTH_A_STREAM),
    "mini-batches, 1 client": Case(clients=1, spec=BATCHES),
    "mini-batches, 10 clients": Case(spec=BATCHES),
    "momentum": Case(spec=LocalSpec(lr=0.01, momentum=0.9, epochs=4)),
    "adam": Case(spec=LocalSpec(lr=0.001, optimizer="adam", epochs=2, batch_size=6), bound=BY_ADAM),
    "fedprox": Case(spec=LocalSpec(lr=0.01, epochs=4, prox=0.5)),
    "a model with a buffer": Case("scaled", spec=BATCHES),
    "1-D CNN": Case("cnn1d", spec=BATCHES),
    "ResNet-18": Case("resnet18", clients=3, samples=8, spec=LocalSpec(lr=0.01, steps=2)),
}


def assert_equal(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        assert all(torch.equal(a[n], b[n]) for n in b)


def assert_near(found, wanted, bound):
    for a, b in zip(found, wanted, strict=True):
        a, b = ({n: d.cpu() for n, d in each.items()} for each in (a, b))
        assert norm(subtract(a, b)) < bound * norm(b)


@pytest.mark.parametrize("name", CASES)
def test_recorded_equals_eager_equals_cpu(name, make_problem, device, caplog):
    case = CASES[name]
    problem = make_problem(case.model, case.samples)
    model = problem.model_on(device)
    with caplog.at_level(logging.WARNING):
        for seed in range(3):  # eager, recorded, replayed with other numbers
            with recording_by(None):
                eager = train_cohort(
                    model, problem.work(device, case.clients, seed), case.spec, batched=True
                )
            found = train_cohort(
                model, problem.work(device, case.clients, seed), case.spec, batched=True
            )
            assert len(GRAPHS.recordings(model)) == min(seed, 1)
            assert_equal(found, eager)
    looped = train_cohort(model, problem.work(device, case.clients, seed), case.spec, batched=False)
    assert_near(found, looped, case.bound)
    by_cpu = train_cohort(problem.model, problem.work("cpu", case.clients, seed), case.spec)
    assert_near(found, by_cpu, case.bound)
    assert caplog.records == []  # nothing fell back
    assert not any(recording.others for recording in GRAPHS.recordings(model))


def test_rounds_in_a_row(make_problem, device, pressure):
    """Two sizes of cohort in turn, shuffled anew each round, with memory freed in between."""
    problem = make_problem("lenet")
    model = problem.model_on(device)
    for seed in range(6):
        clients = 3 + seed % 2
        with recording_by(None):
            eager = train_cohort(model, problem.work(device, clients, seed), BATCHES, batched=True)
        pressure()
        assert_equal(
            train_cohort(model, problem.work(device, clients, seed), BATCHES, batched=True), eager
        )
    assert len(GRAPHS.recordings(model)) == 2


def test_a_changed_buffer_is_seen(make_problem, device, pressure):
    problem = make_problem("scaled")
    model, biases = problem.model_on(device), []
    for round in range(5):
        if round == 3:
            model.scale.mul_(2)
        if round == 4:
            model.scale = model.scale / 3
        with recording_by(None):
            eager = train_cohort(model, problem.work(device, 3), BATCHES, batched=True)
        pressure()
        found = train_cohort(model, problem.work(device, 3), BATCHES, batched=True)
        assert_equal(found, eager)
        biases.append(tuple(found[0]["layers.2.bias"].tolist()))
    assert len(set(biases)) == 3
    assert len(GRAPHS.recordings(model)) == 1


def test_a_tensor_that_only_the_loss_knows_is_kept(make_problem, device, pressure):
    problem = make_problem("scaled")
    model = problem.model_on(device)
    weights = torch.linspace(1, 3, 5, device=device)
    spec = LocalSpec(
        lr=0.1, steps=2, loss=lambda out, y: torch.nn.functional.cross_entropy(out, y, weights)
    )
    with recording_by(None):
        eager = train_cohort(model, problem.work(device, 3), spec, batched=True)
    for _ in range(3):
        pressure()
        assert_equal(train_cohort(model, problem.work(device, 3), spec, batched=True), eager)
    (recording,) = GRAPHS.recordings(model)
    assert weights.data_ptr() in {t.data_ptr() for t in recording.others}
