"""A server in the smallest: three weights, and a past that is a dict."""

import pytest
import torch
from late_world import LateWorld
from standing import FEW

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


@pytest.fixture
def known(world):
    """Make the state of `FEW` after updates of the slow clients from versions 2 and 3."""
    updates = [world.update("s", 2), world.update("t", 3)]
    return FEW.apply(updates, FEW.init(), world.view(6)).state
