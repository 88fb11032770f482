"""Tiny data and simulations that take milliseconds."""

import pytest
import torch
from torch import nn

from unstale.data import Dataset
from unstale.inversion import InputSpec
from unstale.methods import as_method
from unstale.server import Server
from unstale.sim import Scenario, ScenarioSpec, Simulation
from unstale.sim.latency import NoLatency
from unstale.sim.partition import OneClass
from unstale.training.local import LocalSpec

CLASSES, FEATURES = 4, 6


@pytest.fixture(scope="session")
def tiny():
    """Four Gaussian clouds; 160 samples to train on, 40 to test."""
    rng = torch.Generator().manual_seed(7)
    centres = 2 * torch.randn(CLASSES, FEATURES, generator=rng)

    def part(count):
        y = torch.arange(count) % CLASSES
        x = centres[y] + torch.randn(count, FEATURES, generator=rng)
        return x.clamp(-10, 10), y

    names = tuple("abcd")
    return Dataset("tiny", *part(160), *part(40), names, -10.0, 10.0)


@pytest.fixture
def make_model():
    """A model with the same weights at every call."""

    def make(hidden=5):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            return nn.Sequential(nn.Linear(FEATURES, hidden), nn.Tanh(), nn.Linear(hidden, CLASSES))

    return make


@pytest.fixture
def simulate(tiny, make_model):
    """Make a simulation: eight clients with one class and ten samples each."""

    def make(
        method="unweighted",
        *,
        clients=8,
        local=None,
        history=None,
        limits=None,
        delayed=None,
        seed=0,
        partition=None,
        latency=None,
        with_oracle=False,
        evaluate_every=1,
        batched=None,
        affected=None,
        **scenario,
    ):
        method = as_method(method)
        spec = ScenarioSpec(
            partition=partition or OneClass(clients=clients, samples=10),
            latency=latency or NoLatency(),
            **scenario,
        )
        model = make_model()
        server = Server(
            model,
            method,
            local=local or LocalSpec(lr=0.3, momentum=0.5, epochs=2),
            history=history,
            limits=limits,
            inputs=InputSpec((FEATURES,), CLASSES, -10.0, 10.0),
            seed=seed,
        )
        return Simulation(
            server,
            model,
            Scenario(spec, tiny, seed),
            delayed=method.delayed if delayed is None else delayed,
            with_oracle=with_oracle,
            evaluate_every=evaluate_every,
            batched=batched,
            affected=affected,
        )

    return make
