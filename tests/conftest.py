"""Shared by all tests: which ones run, their processes' end, and a generator of their own."""

import os

import hypothesis
import pytest
import torch

from marked_processes import watch_this_process
from unstale.methods.conversion import recipe_fits, recipe_verdict

# Its limit on the time of an example would depend on how busy the machine is.
hypothesis.settings.register_profile("unstale", deadline=None)
hypothesis.settings.load_profile("unstale")


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="also run tests marked slow")


def pytest_configure(config):
    # A runner that is killed takes the SuperLinks, workers and browsers of its tests with it.
    watch_this_process()
    # However busy the machine is, a run waits for its sinks.
    os.environ.setdefault("UNSTALE_SINK_SECONDS", "600")


def pytest_collection_modifyitems(config, items):
    for item in items:
        if "slow" in item.keywords and "integration" not in item.path.parts:
            raise pytest.UsageError(
                f"Only integration tests may be slow; others should be made cheaper: {item.nodeid}"
            )
    without = {}
    if not config.getoption("--all"):
        without["slow"] = "slow: runs with --all (make test-all)"
    if not torch.cuda.is_available():
        without["gpu"] = "gpu: needs CUDA (make test-gpu)"
    for marker, reason in without.items():
        for item in items:
            if marker in item.keywords:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def _cheap_recipe_checks(monkeypatch):
    """Let `convert` check recipes with fits of one iteration; tests of the check set their own."""
    monkeypatch.setitem(recipe_fits.SMALL, "iterations", 1)
    monkeypatch.setattr(recipe_verdict, "MIN_SCORE", float("inf"))


@pytest.fixture(autouse=True)
def _own_global_generator():
    """Let tests build modules freely: what they draw globally reaches no other test."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
