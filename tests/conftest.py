"""Shared set-up: the markers slow and long, and a global generator of its own for each test."""

import pytest
import torch


def pytest_addoption(parser):
    parser.addoption("--runslow", action="store_true", help="also run tests marked slow")
    parser.addoption("--runlong", action="store_true", help="also run tests marked long")


def pytest_collection_modifyitems(config, items):
    for marker in ("slow", "long"):
        if config.getoption(f"--run{marker}"):
            continue
        skip = pytest.mark.skip(reason=f"{marker}: runs with --run{marker}")
        for item in items:
            if marker in item.keywords:
                item.add_marker(skip)


@pytest.fixture(autouse=True)
def _own_global_generator():
    """Let tests build modules freely: what they draw globally reaches no other test."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
