"""An executor that waits at a gate, which is open in the end."""

import pytest
from waiting_world import Gated


@pytest.fixture
def gated():
    """Make an executor that waits; whatever happens, its threads can end."""
    executor = Gated()
    yield executor
    executor.open.set()
