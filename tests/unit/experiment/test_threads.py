"""Threads are one unless somebody says otherwise; a run goes on with what it began with."""

import json

import pytest
import torch

from unstale.experiment.threads import cpu_threads


@pytest.fixture
def noting(recorder):
    """Progress that notes how many threads there were in rounds that ran now."""

    class Noting(recorder):
        def begin(self, config, folder):
            super().begin(config, folder)
            self.threads = set()

        def advance(self, label, seed, line):
            self.threads.add(torch.get_num_threads())
            super().advance(label, seed, line)

    return Noting


def test_one_whatever_torch_is_set_to(run_tiny, noting):
    progress = noting()
    with cpu_threads(3):
        folder = run_tiny("a", progress=progress)
        assert torch.get_num_threads() == 3
    assert progress.threads == {1}
    assert json.loads((folder.path / "environment.json").read_text())["threads"] == 1


def test_a_run_goes_on_with_as_many_as_it_began_with(run_tiny, noting, tmp_path):
    """As a run of before, whose number was torch's own choice."""
    with pytest.raises(KeyboardInterrupt):
        run_tiny("a", progress=noting(3))
    path = tmp_path / "a" / "environment.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "threads": 2}))
    progress = noting()
    run_tiny("a", progress=progress)
    assert progress.threads == {2}
