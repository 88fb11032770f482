"""Makes `waiting_world` importable, and a gate that is open in the end."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from waiting_world import Gated


@pytest.fixture
def gated():
    """Make an executor that waits; whatever happens, its threads can end."""
    executor = Gated()
    yield executor
    executor.open.set()
