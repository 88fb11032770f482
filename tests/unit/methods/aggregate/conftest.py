"""A server in the smallest: three weights, at version 10, and updates of any staleness."""

import dataclasses

import pytest
import torch

import unstale as us


@pytest.fixture
def view():
    """What an aggregator sees at version 10."""
    params = {"w": torch.zeros(3, dtype=torch.float64)}
    rng = torch.Generator().manual_seed(0)
    return us.ServerView(10, params, {}.get, us.LocalSpec(), rng)


@pytest.fixture
def among(view):
    """Make what an aggregator sees at version 10 of these clients, given with their latencies."""

    def make(clients, params=(0.0, 0.0, 0.0), past=None):
        def weights(values):
            return {"w": torch.tensor(values, dtype=torch.float64)}

        history = {version: weights(values) for version, values in (past or {}).items()}
        return dataclasses.replace(
            view, params=weights(params), history=history.get, clients=clients
        )

    return make


@pytest.fixture
def update():
    """Make an update for version 10: who, how stale, three entries, how many examples."""

    def make(client, staleness, values, examples=1, weight=1.0):
        delta = {"w": torch.tensor(values, dtype=torch.float64)}
        return us.Update(client, 10 - staleness, delta, examples, weight)

    return make
