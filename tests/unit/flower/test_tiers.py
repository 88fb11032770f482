"""Tiers on Flower: sizes are those of the connected nodes, whether they have answered or not."""

import pytest
from pretend_clients import examples_of, late_grid, moved_by, small_model
from strategy_runs import of_kind

from unstale.flower import Unstale

pytestmark = pytest.mark.usefixtures("in_a_run")

FAST, SLOW, SILENT = (3, 4), 5, 6


def grid():
    delays = {SLOW: 2, SILENT: 50}
    return late_grid(
        dict.fromkeys((*FAST, SLOW, SILENT), 0.01), delay=lambda node: delays.get(node, 0)
    )


def run(folder, grid, rounds, method, **options):
    it = Unstale(small_model(), method, folder=folder)
    it.start(grid, num_rounds=rounds, **options)
    return it.server


def mean_moved(updates):
    weights = [examples_of(int(node)) for node, _ in updates]
    moved = [moved_by(int(node), base) for node, base in updates]
    return sum(w * m for w, m in zip(weights, moved, strict=True)) / sum(weights)


def test_a_node_that_never_answers_counts_in_the_slow_tier(tmp_path):
    server = run(tmp_path, grid(), 7, "asyn_tiers")
    bias, rounds_of_both = small_model().bias.item(), 0
    for event in of_kind(tmp_path, "version"):
        fast = [u for u in event["updates"] if int(u[0]) in FAST]
        slow = [u for u in event["updates"] if int(u[0]) == SLOW]
        # Two fast nodes, two slow ones: each tier has half, although one node is silent.
        change = mean_moved(fast)
        if slow:
            change, rounds_of_both = (change + mean_moved(slow)) / 2, rounds_of_both + 1
        bias += change
    assert rounds_of_both == 2
    assert server.params["bias"].item() == pytest.approx(bias, abs=1e-12)
    assert not any(u[0] == str(SILENT) for e in of_kind(tmp_path, "version") for u in e["updates"])


@pytest.mark.parametrize("method", ["asyn_tiers", "fedat"])
def test_a_resumed_run_ends_as_one_without_a_break(method, tmp_path):
    """Broken off in round 5, in which a slow node works; the same nodes go on."""
    whole = run(tmp_path / "whole", grid(), 8, method)
    nodes = grid()

    def fails(version, arrays):
        if version == 5:
            raise ValueError("user code")

    with pytest.raises(ValueError, match="user code"):
        run(tmp_path / "broken", nodes, 8, method, evaluate_fn=fails)
    again = run(tmp_path / "broken", nodes, 8, method, resume=True)
    assert again.version == whole.version == 8
    assert again.params["bias"].item() == whole.params["bias"].item()
