"""A data set of milliseconds, and an experiment on it."""

import copy

import pytest
import torch

from unstale import data
from unstale.data import registry
from unstale.experiment import RunFolder, parse, run_experiment

TABLE = {
    "name": "tiny",
    "title": "Tiny",
    "rounds": 7,
    "seeds": [0, 1],
    "overlap": True,
    "data": {"name": "tiny-clouds"},
    "model": {"name": "mlp", "hidden": [4]},
    "local": {"lr": 0.3, "momentum": 0.5, "epochs": 1, "batch_size": 5},
    "partition": {"kind": "one_class", "clients": 8, "samples": 8},
    "latency": {"kind": "intertwined", "classes": [1], "clients": 2, "rounds": 3},
    "cohort": {"kind": "sample", "fast": 3, "slow": 1},
    "evaluate": {"every": 2, "target": 0.5},
    "methods": [{"name": "unweighted"}, {"name": "first_order", "label": "taylor", "lam": 0.5}],
}


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    """What fsync is for, no test here can see; waiting for it takes most of the time."""
    monkeypatch.setattr("os.fsync", lambda handle: None)


@pytest.fixture
def table():
    """The experiment as a table of one's own."""
    return copy.deepcopy(TABLE)


@pytest.fixture
def _clouds(monkeypatch):
    """Register the tiny data set for one test."""

    def read(files):
        rng = torch.Generator().manual_seed(5)
        y = torch.arange(120) % 4
        x = (2 * torch.randn(4, 3, generator=rng))[y] + torch.randn(120, 3, generator=rng)
        x = x.clamp(-9, 9)
        names = tuple("abcd")
        return data.Dataset("tiny-clouds", x[:80], y[:80], x[80:], y[80:], names, -9.0, 9.0)

    source = data.Source("made up", (data.Layout(read),))
    monkeypatch.setitem(registry.SOURCES, "tiny-clouds", source)


class Recorder:
    """Progress that remembers, and stops the run where it is told to."""

    def __init__(self, stop_after=None):
        self.seen = []
        self.began = 0
        self.stop_after = stop_after

    def begin(self, config, folder):
        self.began += 1

    def advance(self, label, seed, line):
        self.seen.append((label, seed, line.number))
        if self.stop_after is not None and len(self.seen) == self.stop_after:
            raise KeyboardInterrupt


@pytest.fixture
def recorder():
    return Recorder


@pytest.fixture
def run_tiny(_clouds, table, tmp_path):
    """Run the experiment into a folder below the test's own; return the folder."""

    def run(name, *, progress=None, checkpoint_seconds=1e9, table=table, **options):
        folder = RunFolder(tmp_path / name)
        run_experiment(
            parse(table),
            folder,
            progress=progress,
            checkpoint_seconds=checkpoint_seconds,
            **options,
        )
        return folder

    return run
