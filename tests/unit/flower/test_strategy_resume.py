"""Runs of the strategy that go on in their folder, and those that may not."""

import json
import threading

import numpy as np
import pytest
import torch
from pretend_clients import (
    late_grid,
    small_model,
)
from strategy_runs import NODES, events_of, of_kind, start, strategy
from torch import nn

import unstale as us
from unstale.errors import ConfigError, RunError
from unstale.flower import Unstale

pytestmark = pytest.mark.usefixtures("in_a_run")


def test_resume_goes_on_where_a_run_ended(tmp_path):
    start(strategy(tmp_path), late_grid({3: 1.0, 4: 1.0}), rounds=2)
    seen = []
    it = strategy(tmp_path)
    again = late_grid({3: 1.0, 4: 1.0})
    start(it, again, rounds=4, resume=True, evaluate_fn=lambda v, _: seen.append(v))
    assert seen == [3, 4]
    whole = start(strategy(), late_grid({3: 1.0, 4: 1.0}), rounds=4).arrays
    assert np.array_equal(whole["weight"].numpy(), it.server.params["weight"].numpy())
    assert [e["seq"] for e in events_of(tmp_path / "run")] == list(range(16))
    assert again.below.pushed[0].metadata.group_id == "3"


def test_resume_in_an_empty_folder_begins_anew(tmp_path):
    it = strategy(tmp_path)
    start(it, late_grid({3: 1.0, 4: 1.0}), rounds=1, resume=True)
    assert it.server.version == 1


def test_a_folder_that_holds_a_run_is_not_overwritten(tmp_path):
    start(strategy(tmp_path), late_grid({3: 1.0, 4: 1.0}), rounds=1)
    before = (tmp_path / "run/events.jsonl").read_bytes()
    with pytest.raises(RunError, match="resume=True"):
        start(strategy(tmp_path), late_grid({3: 1.0, 4: 1.0}))
    assert (tmp_path / "run/events.jsonl").read_bytes() == before


def test_a_run_of_which_only_traces_are_left_is_an_error(tmp_path):
    start(strategy(tmp_path), late_grid({3: 1.0, 4: 1.0}), rounds=1)
    for path in (tmp_path / "run/checkpoints").glob("checkpoint-*"):
        path.unlink()
    with pytest.raises(RunError, match="no checkpoint"):
        start(strategy(tmp_path), late_grid({3: 1.0, 4: 1.0}), resume=True)


def test_two_runs_in_one_folder_are_refused(tmp_path):
    it = strategy(tmp_path)

    def second(version, arrays):
        with pytest.raises(RunError, match="One process at a time"):
            start(strategy(tmp_path), late_grid({3: 1.0, 4: 1.0}), resume=True)

    start(it, late_grid({3: 1.0, 4: 1.0}), rounds=1, evaluate_fn=second)
    start(it, late_grid({3: 1.0, 4: 1.0}), rounds=2, resume=True)  # now it is free


@pytest.mark.parametrize("other", [us.ServerSettings("weighted"), us.ServerSettings(seed=1)])
def test_a_run_goes_on_with_its_own_method_and_seed(other, tmp_path):
    start(strategy(tmp_path), late_grid({3: 1.0, 4: 1.0}), rounds=1)
    it = Unstale(small_model(), other, folder=tmp_path / "run")
    with pytest.raises(RunError, match="it began with"):
        start(it, late_grid({3: 1.0, 4: 1.0}), resume=True)


def test_to_resume_needs_a_folder():
    with pytest.raises(ConfigError, match="folder"):
        start(strategy(), late_grid({3: 1.0}), resume=True)


def test_after_an_error_within_a_round_the_same_object_can_go_on(tmp_path):
    it = strategy(tmp_path)
    grid = late_grid(dict.fromkeys(NODES, 1.0), delay=lambda n: 2 * (n == 4))

    def fails_once(version, arrays):
        if version == 2 and not failed:
            failed.append(version)
            raise ValueError("user code")

    failed = []
    with pytest.raises(ValueError, match="user code"):
        start(it, grid, rounds=6, evaluate_fn=fails_once)
    start(it, grid, rounds=6, evaluate_fn=fails_once, resume=True)
    accepted = [(e["node"], e["base_version"]) for e in of_kind(tmp_path / "run", "accepted")]
    assert len(accepted) == len(set(accepted))
    taken = [tuple(u) for v in of_kind(tmp_path / "run", "version") for u in v["updates"]]
    assert len(taken) == len(set(taken))
    assert set(taken) <= set(accepted)


@pytest.mark.parametrize("method", ["unweighted", "weighted", "first_order", "asyn_tiers", "fedat"])
def test_any_method_runs_by_name(method, tmp_path):
    it = Unstale(small_model(), method, folder=tmp_path / "run")
    grid = late_grid(dict.fromkeys(NODES, 1.0), delay=lambda n: 2 * (n == 4))
    start(it, grid, rounds=4)
    again = Unstale(small_model(), method, folder=tmp_path / "run")
    start(again, grid, rounds=5, resume=True)
    assert again.server.version == 5


@pytest.mark.parametrize("name", ["generator", "dreams"])
def test_comparators_run_on_flower_and_go_on_after_a_resume(name, tmp_path):
    def begun(folder):
        torch.manual_seed(0)
        settings = us.ServerSettings(
            method=us.method(name, iterations=2),
            local=us.LocalSpec(lr=0.1),
            inputs=us.InputSpec(shape=(2,), classes=3),
        )
        return Unstale(nn.Linear(2, 3), settings, folder=folder)

    grid = late_grid(dict.fromkeys(NODES, 1.0), delay=lambda n: 2 * (n == 4))
    start(begun(tmp_path / "run"), grid, rounds=4)
    again = begun(tmp_path / "run")
    start(again, grid, rounds=5, resume=True)
    assert again.server.version == 5
    assert list(again.server.surrogates()) == ["4"]


def test_late_updates_are_converted_while_rounds_go_on_and_survive_a_resume(tmp_path):
    """The slow node's update is given to the server, waits there, and joins a later round."""

    def model():
        torch.manual_seed(0)
        return nn.Linear(2, 3)

    def begun(background):
        return Unstale(
            model(),
            us.ServerSettings(
                method=us.method("convert", inversion={"iterations": 5}),
                local=us.LocalSpec(lr=0.1),
                inputs=us.InputSpec(shape=(2,), classes=3),
                background=background,
            ),
            folder=tmp_path / "run",
        )

    def grid():
        return late_grid(dict.fromkeys(NODES, 1.0), delay=lambda n: 2 * (n == 4))

    busy = threading.Event()
    with us.Background() as background:
        background.submit(lambda _, items: [busy.wait(600) for _ in items], None, None)
        start(begun(background), grid(), rounds=3)
        last = of_kind(tmp_path / "run", "version")[-1]
        assert ["4", 0] in last["updates"]
        assert last["awaiting_fit"] == [["4", 0]]
        busy.set()
    with us.Background() as background:
        start(
            begun(background),
            grid(),
            rounds=5,
            resume=True,
            evaluate_fn=lambda *_: background.wait(timeout=600) and None,
        )
    versions = of_kind(tmp_path / "run", "version")
    assert versions[-1]["awaiting_fit"] == []
    assert [v["arrivals"] for v in versions[:3]] == [2, 2, 2]
    assert [v["arrivals"] for v in versions[3:]] in ([2, 3], [3, 2])
    assert sum(["4", 0] in v["updates"] for v in versions) == 1


MOMENTUM = us.ServerSettings(optimizer={"name": "fedavgm", "momentum": 0.5})


def test_a_server_optimizer_goes_on_where_it_was(tmp_path):
    """With what it remembers, to the bit; and the folder says which one it is."""
    grids = [late_grid({3: 1.0, 4: 1.0}) for _ in range(3)]
    start(strategy(tmp_path, MOMENTUM), grids[0], rounds=2)
    it = strategy(tmp_path, MOMENTUM)
    start(it, grids[1], rounds=4, resume=True)
    whole = start(strategy(server=MOMENTUM), grids[2], rounds=4).arrays
    assert np.array_equal(whole["weight"].numpy(), it.server.params["weight"].numpy())
    plain = start(strategy(), late_grid({3: 1.0, 4: 1.0}), rounds=4).arrays
    assert not np.array_equal(whole["weight"].numpy(), plain["weight"].numpy())
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert config["optimizer"] == {"name": "fedavgm", "lr": 1.0, "momentum": 0.5}


@pytest.mark.parametrize("other", ["plain", "fedadam", {"name": "fedavgm", "momentum": 0.9}])
def test_a_run_goes_on_with_its_own_server_optimizer(other, tmp_path):
    start(strategy(tmp_path, MOMENTUM), late_grid({3: 1.0, 4: 1.0}), rounds=1)
    it = strategy(tmp_path, us.ServerSettings(optimizer=other))
    with pytest.raises(RunError, match=r"the server optimizer it began with: .*'momentum': 0\.5"):
        start(it, late_grid({3: 1.0, 4: 1.0}), resume=True)


def test_a_method_that_makes_the_model_refuses_an_optimizer_at_once():
    with pytest.raises(ConfigError, match="Method 'fedat' sets the global model"):
        strategy(server=us.ServerSettings("fedat", optimizer="fedadam"))
