"""Shared set-up: the slow marker and a global generator of its own for each test."""

import pytest
import torch


def pytest_addoption(parser):
    parser.addoption("--runslow", action="store_true", help="also run tests marked slow")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--runslow"):
        return
    skip = pytest.mark.skip(reason="slow: runs with --runslow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def _own_global_generator():
    """Let tests build modules freely: what they draw globally reaches no other test."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
