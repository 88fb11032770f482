"""A server in the smallest: three weights, at version 10, and updates of any staleness."""

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
def update():
    """Make an update for version 10: who, how stale, three entries, how many examples."""

    def make(client, staleness, values, examples=1, weight=1.0):
        delta = {"w": torch.tensor(values, dtype=torch.float64)}
        return us.Update(client, 10 - staleness, delta, examples, weight)

    return make
