"""Rounds of the strategy on a grid in memory: who is asked, on which version, what comes of it."""

import json
import logging

import pytest
import torch
from flwr.app import ConfigRecord, MetricRecord
from pretend_clients import (
    ClientsGrid,
    claims,
    honest,
    late_grid,
    moved_by,
    small_model,
)
from pretend_grid import BIG, PretendClock
from strategy_runs import NODES, of_kind, start, strategy

import unstale as us
from unstale.flower import ClosePolicy, Cohort, Unstale

pytestmark = pytest.mark.usefixtures("in_a_run")


def test_a_round_is_the_mean_of_what_nodes_sent_by_examples(tmp_path):
    it = strategy()
    result = start(it, late_grid(dict.fromkeys(NODES, 1.0)), rounds=1)
    shares = {n: 10 + n % 5 for n in NODES}
    mean = sum(shares[n] * moved_by(n, 0) for n in NODES) / sum(shares.values())
    found = result.arrays.to_torch_state_dict()
    for name, before in small_model().state_dict().items():
        torch.testing.assert_close(found[name], before + mean)
    assert it.server.version == 1


def test_a_late_reply_is_matched_to_the_version_it_was_based_on(tmp_path):
    slow = NODES[2]
    it = strategy(tmp_path)
    grid = late_grid({3: 1.0, 4: 1.0, slow: 3.5}, close=ClosePolicy(deadline=1.5))
    start(it, grid, rounds=6)
    mine = [e for e in of_kind(tmp_path / "run", "accepted") if e["node"] == str(slow)]
    assert mine[0]["base_version"] == 0
    assert mine[0]["sent_in_round"] == 1
    versions = of_kind(tmp_path / "run", "version")
    assert [v["version"] for v in versions] == [1, 2, 3, 4, 5, 6]
    first = next(v["version"] for v in versions if [str(slow), 0] in v["updates"])
    assert first >= 3
    # Fast nodes went on meanwhile, on the newest version each time.
    assert all(["3", v["version"] - 1] in v["updates"] for v in versions)


def test_the_delta_is_against_the_version_of_the_ticket(tmp_path):
    seen = []

    class Spy(us.Identity):
        def apply(self, updates, state, view):
            seen.extend((u.client_id, u.base_version, u.delta["bias"].item()) for u in updates)
            return super().apply(updates, state, view)

    it = Unstale(small_model(), us.Method(compensator=Spy()))
    start(it, late_grid(dict.fromkeys(NODES, 1.0), delay=lambda n: 2 * (n == 4)), rounds=6)
    assert {base for node, base, _ in seen if node == "4"} == {0, 3}
    for node, base, moved in seen:
        assert moved == pytest.approx(moved_by(int(node), base), abs=1e-12)


def test_a_working_node_is_not_asked_again(tmp_path):
    it = strategy(tmp_path)
    grid = late_grid({3: 1.0, 4: None}, close=ClosePolicy(deadline=1.5))
    start(it, grid, rounds=5)
    assert sum(m.metadata.dst_node_id == 4 for m in grid.below.pushed) == 1
    assert it.server.outstanding == [0]


def test_a_node_that_leaves_frees_its_version():
    it = strategy()
    grid = late_grid({3: 1.0, 4: 1.0, 6: None}, close=ClosePolicy(deadline=1.5))
    grid.below.clock.at(3.0, lambda: grid.below.offline.add(6))
    start(it, grid, rounds=6)
    assert it.server.outstanding == []


def test_messages_carry_what_flowers_do_and_the_version():
    it = strategy()
    grid = late_grid({3: 1.0, 4: 1.0})
    start(it, grid, rounds=2, train_config=ConfigRecord({"lr": 0.1}))
    last = grid.below.pushed[-1].content
    assert dict(last["config"]) == {"lr": 0.1, "server-round": 2, "unstale-version": 1}
    assert len(last.config_records) == 1, "some client mods refuse a message with two"
    assert list(last["arrays"]) == ["weight", "bias"]
    small_model().load_state_dict(last["arrays"].to_torch_state_dict())


def test_a_share_of_the_connected_nodes_is_drawn_from_the_idle_ones():
    nodes = {BIG + n: 1.0 for n in range(20)}
    pushed = []
    for _ in range(2):
        grid = late_grid(nodes)
        start(strategy(cohort=Cohort(fraction_train=0.25)), grid, rounds=4)
        pushed.append([m.metadata.dst_node_id for m in grid.below.pushed])
    assert pushed[0] == pushed[1]  # the same seed
    assert len(pushed[0]) == 20
    assert len({tuple(pushed[0][i : i + 5]) for i in range(0, 20, 5)}) == 4
    other = late_grid(nodes)
    start(strategy(server=us.ServerSettings(seed=1), cohort=Cohort(0.25)), other, rounds=4)
    assert [m.metadata.dst_node_id for m in other.below.pushed] != pushed[0]


def test_metrics_of_clients_are_averaged_and_hostile_ones_left_out():
    def boasts(message):
        content = honest(message)
        content["metrics"]["loss"] = float("inf")
        content["metrics"]["list"] = [1, 2]
        return content

    result = start(strategy(), late_grid({3: 1.0, 4: 1.0}, {4: boasts}), rounds=2)
    assert dict(result.train_metrics_clientapp[2]) == {"loss": 1.0}


def test_evaluation_here_and_on_nodes(tmp_path):
    called = []

    def evaluate(version, arrays):
        called.append((version, arrays["bias"].numpy().item()))
        return MetricRecord({"accuracy": version / 10})

    it = strategy(tmp_path, cohort=Cohort(fraction_evaluate=1.0))
    result = start(it, late_grid({3: 1.0, 4: 1.0}), rounds=2, evaluate_fn=evaluate)
    assert [version for version, _ in called] == [0, 1, 2]
    assert len({bias for _, bias in called}) == 3
    assert {k: dict(v) for k, v in result.evaluate_metrics_clientapp.items()} == {
        1: {"f1": 0.5},
        2: {"f1": 0.5},
    }
    assert result.evaluate_metrics_serverapp[2]["accuracy"] == 0.2
    line = json.loads((tmp_path / "run/rounds/unweighted/seed-0.jsonl").read_text().splitlines()[1])
    assert line["accuracy"] == 0.2
    assert line["metrics"] == {"f1": 0.5}
    assert line["nodes"]["answered"] == ["3", "4"]


def test_any_grid_is_wrapped():
    clock = PretendClock()
    it = strategy(close=ClosePolicy(deadline=60))
    result = start(it, ClientsGrid(clock, {3: 0.0, 4: 0.0}), rounds=1)
    assert it.server.version == 1
    assert result.train_metrics_clientapp


def test_progress_is_logged_without_a_folder_too(caplog):
    with caplog.at_level(logging.INFO, logger="unstale"):
        start(strategy(), late_grid({3: 1.0, 4: 1.0}, {4: claims(-1)}), rounds=1)
    assert "Round 1 of 1" in caplog.text
    assert "num_examples" in caplog.text
