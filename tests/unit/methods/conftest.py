"""A server in the smallest: three weights, and a past that is a dict."""

import pytest
import torch
from late_world import LateWorld

import unstale as us


@pytest.fixture
def three():
    """Make named tensors of three entries, in double precision."""
    return lambda *values: {"w": torch.tensor(values, dtype=torch.float64)}


@pytest.fixture
def view():
    """Make what a compensator sees: the version, the weights, the past."""

    def make(version, params, past=None):
        history = (past or {}).get
        return us.ServerView(
            version, params, history, us.LocalSpec(), torch.Generator().manual_seed(0)
        )

    return make


@pytest.fixture
def late(three):
    """Make an update of client `a` from base version 3."""
    return lambda *values, **more: us.Update("a", 3, three(*values), 10, **more)


@pytest.fixture(scope="session")
def world():
    """Make versions of a tiny model, and slow clients with data that nobody else has."""
    return LateWorld()
