"""Flower's own processes, where it is installed."""

import importlib.util
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items):
    """Skip what needs Flower's commands where it is not installed, and say so."""
    reason = ""
    if importlib.util.find_spec("flwr") is None:
        reason = "needs Flower: pip install 'unstale[flower]'"
    elif not Path("/proc/self/environ").exists():
        reason = "finds Flower's processes in /proc, which this system has not"
    for item in items:
        if reason and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def certificates(tmp_path):
    """A CA, a server certificate and keys for four nodes."""
    from make_certificates import make_certificates

    return make_certificates(tmp_path / "certificates", nodes=4)
