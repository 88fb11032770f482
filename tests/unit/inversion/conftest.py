"""A small problem with a known answer: one slow client among digits."""

from dataclasses import dataclass

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

import unstale as us
from unstale.inversion import InputSpec, Request
from unstale.params import add, cosine_distance
from unstale.seeding import generator


@dataclass
class Problem:
    model: nn.Module
    local: us.LocalSpec
    inputs: InputSpec
    weights: list[us.Params]
    """Global models by version: trained on what all clients but the slow ones hold."""
    data: dict[str, tuple[torch.Tensor, torch.Tensor]]
    """The slow clients' own data."""

    def update(self, client: str, version: int) -> dict[str, torch.Tensor]:
        return us.local_update(self.model, self.weights[version], *self.data[client], self.local)

    def request(self, client: str, version: int, past=(), **rest) -> Request:
        sent = [(self.weights[v], self.update(client, v)) for v in past]
        n = len(self.data[client][0])
        return Request(self.weights[version], self.update(client, version), n, past=sent, **rest)

    def error(self, client: str, delta: us.Params) -> float:
        """The cosine distance to what the client would send from the newest model."""
        return cosine_distance(delta, self.update(client, len(self.weights) - 1))

    @property
    def current(self) -> us.Params:
        return self.weights[-1]

    @property
    def parts(self) -> dict[str, object]:
        return {"local": self.local, "inputs": self.inputs, "current": self.current}


@pytest.fixture(scope="session")
def problem() -> Problem:
    digits = load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32) / 16
    y = torch.tensor(digits.target)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    rng = generator(0, "weights")
    weights = {
        n: torch.randn(p.shape, generator=rng) * (0.15 if p.ndim > 1 else 0.0)
        for n, p in model.named_parameters()
    }
    local = us.LocalSpec(lr=0.1, momentum=0.5, epochs=5)
    versions = [weights]
    others = torch.arange(len(y))[(y != 3) & (y != 8)]
    for t in range(40):
        rows = others[torch.randperm(len(others), generator=generator(t, "round"))[:60]]
        change = us.local_update(model, versions[-1], x[rows], y[rows], local)
        versions.append(add(versions[-1], change))
    data = {
        "a": (x[y == 3][:40], y[y == 3][:40]),
        "b": (x[y == 8][:40], y[y == 8][:40]),
        "c": (x[(y == 1) | (y == 7)][:40], y[(y == 1) | (y == 7)][:40]),
        "d": (x[y == 0][:24], y[y == 0][:24]),
    }
    return Problem(model, local, InputSpec((64,), 10, 0.0, 1.0), versions, data)
