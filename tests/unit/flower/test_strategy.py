"""The strategy on a grid in memory: who is asked, what is taken, what is refused."""

import json
import logging
import threading

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from pretend_clients import (
    ClientsGrid,
    claims,
    honest,
    in_a_run,  # noqa: F401
    late_grid,
    lies_about_version,
    moved_by,
    npy,
    sends,
    small_model,
)
from pretend_grid import BIG, PretendClock
from torch import nn

import unstale as us
from unstale.errors import ConfigError, RunError
from unstale.flower import Closing, Unstale

pytestmark = pytest.mark.usefixtures("in_a_run")

NODES = (3, 4, BIG + 5)


def events_of(folder):
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def of_kind(folder, kind):
    return [event for event in events_of(folder) if event["event"] == kind]


def strategy(tmp_path=None, **options):
    folder = None if tmp_path is None else tmp_path / "run"
    return Unstale(small_model(), "unweighted", folder=folder, **options)


def start(it, grid, rounds=3, **options):
    return it.start(grid, num_rounds=rounds, **options)


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
    grid = late_grid({3: 1.0, 4: 1.0, slow: 3.5}, closing=Closing(deadline=1.5))
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

    it = Unstale(small_model(), compensator=Spy())
    start(it, late_grid(dict.fromkeys(NODES, 1.0), delay=lambda n: 2 * (n == 4)), rounds=6)
    assert {base for node, base, _ in seen if node == "4"} == {0, 3}
    for node, base, moved in seen:
        assert moved == pytest.approx(moved_by(int(node), base), abs=1e-12)


HOSTILE = {
    "not_finite": sends(weight=Array(np.array([[np.nan, 1.0]]))),
    "shape": sends(weight=Array(np.ones((1,)))),
    "dtype": sends(weight=Array(np.ones((1, 2), np.float32))),
    "dtype of objects": sends(
        weight=Array("object", (1, 2), "numpy.ndarray", npy(np.array([[{}, 1]]), True))
    ),
    "dtype of bfloat16": sends(weight=Array("bfloat16", (1, 2), "torch.Tensor", b"\0" * 4)),
    "metadata": sends(weight=Array("float64", (2, 1), "numpy.ndarray", npy(np.ones((1, 2))))),
    "payload": sends(weight=Array("float64", (1, 2), "numpy.ndarray", b"garbage" * 99)),
    "payload cut": sends(bias=Array("float64", (1,), "numpy.ndarray", npy(np.ones(1))[:-1])),
    "size": sends(weight=Array("float64", (1, 2), "numpy.ndarray", b"PK\x03\x04" + bytes(2**21))),
    "names extra": sends(more=Array(np.ones(1))),
    "names missing": lambda m: RecordDict(
        {"a": ArrayRecord({"weight": Array(np.ones((1, 2)))}), "m": honest(m)["metrics"]}
    ),
    "version": lies_about_version,
    "num_examples": claims(10**18),
    "num_examples below": claims(-10),
    "num_examples none": claims(0),
    "num_examples parts": claims(2.5),
    "num_examples huge": claims(1e300),
    "num_examples nan": claims(float("nan")),
    "num_examples list": claims([3, 4]),
    "records": lambda m: RecordDict(),
    "records twice": lambda m: RecordDict({**honest(m), "again": ArrayRecord()}),
    "records of settings": lambda m: RecordDict({"c": ConfigRecord({"num-examples": True})}),
    "records alone": lambda m: RecordDict({"m": MetricRecord({"num-examples": 3})}),
    "norm": sends(weight=Array(np.full((1, 2), 1e6))),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_reply_neither_stops_the_run_nor_moves_the_model(name, tmp_path):
    code = name.partition(" ")[0]
    options = {"limits": us.Limits(max_norm=1e3)}
    evil = late_grid(dict.fromkeys(NODES, 1.0), {4: HOSTILE[name]})
    it = strategy(tmp_path, **options)
    found = start(it, evil).arrays.to_torch_state_dict()
    without = late_grid({n: 1.0 for n in NODES if n != 4})
    wanted = start(strategy(**options), without).arrays.to_torch_state_dict()
    for key, value in wanted.items():
        assert torch.equal(found[key], value)
    refused = of_kind(tmp_path / "run", "refused")
    assert {(e["node"], e["code"]) for e in refused} == {("4", code)}
    assert [v["refused"] for v in of_kind(tmp_path / "run", "version")] == [{code: 1}] * 3
    assert all(len(e["reason"]) > 20 for e in refused)
    assert it.server.outstanding == []


def test_a_reply_that_does_not_even_decode_in_flower_is_a_failure(tmp_path):
    grid = late_grid({3: 1.0, 4: 1.0})
    grid._grid.garbage.add(4)
    it = strategy(tmp_path)
    start(it, grid)
    failed = of_kind(tmp_path / "run", "failed")
    assert {e["code"] for e in failed if e["node"] == "4"} == {"unreadable"}
    assert it.server.outstanding == []


def test_a_client_that_raises_costs_only_its_own_work(tmp_path):
    grid = late_grid(dict.fromkeys(NODES, 1.0))
    grid._grid.codes[4] = 2
    it = strategy(tmp_path)
    start(it, grid)
    assert {(e["node"], e["code"]) for e in of_kind(tmp_path / "run", "failed")} == {
        ("4", "failed")
    }
    assert all(len(v["updates"]) == 2 for v in of_kind(tmp_path / "run", "version"))
    assert it.server.outstanding == []


def test_a_limit_of_examples_is_per_node(tmp_path):
    it = strategy(tmp_path, limits=us.Limits(max_examples=13))
    start(it, late_grid({3: 1.0, 4: 1.0}), rounds=1)  # of 13 and 14 examples
    assert [e["node"] for e in of_kind(tmp_path / "run", "refused")] == ["4"]


def test_a_limit_of_bytes_is_a_setting(tmp_path):
    it = strategy(tmp_path, max_reply_bytes=10)
    start(it, late_grid({3: 1.0, 4: 1.0}), rounds=1)
    assert [e["code"] for e in of_kind(tmp_path / "run", "refused")] == ["size", "size"]
    assert torch.equal(it.server.params["bias"], small_model().bias)


def test_a_working_node_is_not_asked_again(tmp_path):
    it = strategy(tmp_path)
    grid = late_grid({3: 1.0, 4: None}, closing=Closing(deadline=1.5))
    start(it, grid, rounds=5)
    assert sum(m.metadata.dst_node_id == 4 for m in grid._grid.pushed) == 1
    assert it.server.outstanding == [0]


def test_a_node_that_leaves_frees_its_version():
    it = strategy()
    grid = late_grid({3: 1.0, 4: 1.0, 6: None}, closing=Closing(deadline=1.5))
    grid._grid.clock.at(3.0, lambda: grid._grid.offline.add(6))
    start(it, grid, rounds=6)
    assert it.server.outstanding == []


def test_messages_carry_what_flowers_do_and_the_version():
    it = strategy()
    grid = late_grid({3: 1.0, 4: 1.0})
    start(it, grid, rounds=2, train_config=ConfigRecord({"lr": 0.1}))
    last = grid._grid.pushed[-1].content
    assert dict(last["config"]) == {"lr": 0.1, "server-round": 2, "unstale-version": 1}
    assert len(last.config_records) == 1, "some client mods refuse a message with two"
    assert list(last["arrays"]) == ["weight", "bias"]
    small_model().load_state_dict(last["arrays"].to_torch_state_dict())


def test_a_share_of_the_connected_nodes_is_drawn_from_the_idle_ones():
    nodes = {BIG + n: 1.0 for n in range(20)}
    pushed = []
    for _ in range(2):
        grid = late_grid(nodes)
        start(strategy(fraction_train=0.25), grid, rounds=4)
        pushed.append([m.metadata.dst_node_id for m in grid._grid.pushed])
    assert pushed[0] == pushed[1]  # the same seed
    assert len(pushed[0]) == 20
    assert len({tuple(pushed[0][i : i + 5]) for i in range(0, 20, 5)}) == 4
    other = late_grid(nodes)
    start(strategy(fraction_train=0.25, seed=1), other, rounds=4)
    assert [m.metadata.dst_node_id for m in other._grid.pushed] != pushed[0]


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

    it = strategy(tmp_path, fraction_evaluate=1.0)
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


def test_initial_arrays_take_the_place_of_the_models_weights():
    other = small_model()
    with torch.no_grad():
        other.bias.fill_(7.0)
    it = strategy()
    grid = late_grid({3: 1.0, 4: 1.0})
    start(it, grid, rounds=1, initial_arrays=ArrayRecord(other.state_dict()))
    assert grid._grid.pushed[0].content["arrays"]["bias"].numpy() == 7.0
    with pytest.raises(ConfigError, match="initial_arrays"):
        start(it, grid, initial_arrays=ArrayRecord(nn.Linear(3, 1).state_dict()))


def test_arrays_by_number_are_taken_as_a_list_in_order():
    def listed(message):
        named = honest(message)
        return RecordDict({**named, "arrays": ArrayRecord(named["arrays"].to_numpy_ndarrays())})

    wanted = start(strategy(), late_grid({3: 1.0, 4: 1.0}), rounds=1)
    found = start(strategy(), late_grid({3: 1.0, 4: 1.0}, {4: listed}), rounds=1)
    assert np.array_equal(found.arrays["weight"].numpy(), wanted.arrays["weight"].numpy())


def test_any_grid_is_wrapped():
    clock = PretendClock()
    it = strategy(closing=Closing(deadline=60))
    result = start(it, ClientsGrid(clock, {3: 0.0, 4: 0.0}), rounds=1)
    assert it.server.version == 1
    assert result.train_metrics_clientapp


@pytest.mark.parametrize("method", ["unweighted", "weighted", "first_order", "asyn_tiers"])
def test_any_method_runs_by_name(method, tmp_path):
    it = Unstale(small_model(), method, folder=tmp_path / "run")
    grid = late_grid(dict.fromkeys(NODES, 1.0), delay=lambda n: 2 * (n == 4))
    start(it, grid, rounds=4)
    again = Unstale(small_model(), method, folder=tmp_path / "run")
    start(again, grid, rounds=5, resume=True)
    assert again.server.version == 5


def test_late_updates_are_converted_while_rounds_go_on_and_survive_a_resume(tmp_path):
    """The slow node's update is given to the server, waits there, and joins a later round."""

    def model():
        torch.manual_seed(0)
        return nn.Linear(2, 3)

    def begun(background):
        return Unstale(
            model(),
            us.method("invert", iterations=5),
            local=us.LocalSpec(lr=0.1),
            inputs=us.InputSpec(shape=(2,), classes=3),
            background=background,
            folder=tmp_path / "run",
        )

    def grid():
        return late_grid(dict.fromkeys(NODES, 1.0), delay=lambda n: 2 * (n == 4))

    busy = threading.Event()
    with us.Background() as background:
        background.submit(lambda _, items: [busy.wait(30) for _ in items], None, None)
        start(begun(background), grid(), rounds=3)
        last = of_kind(tmp_path / "run", "version")[-1]
        assert ["4", 0] in last["updates"]
        assert last["held"] == [["4", 0]]
        busy.set()
    with us.Background() as background:
        start(
            begun(background),
            grid(),
            rounds=5,
            resume=True,
            evaluate_fn=lambda *_: background.wait(timeout=30) and None,
        )
    versions = of_kind(tmp_path / "run", "version")
    assert versions[-1]["held"] == []
    assert [v["arrivals"] for v in versions[:3]] == [2, 2, 2]
    assert [v["arrivals"] for v in versions[3:]] in ([2, 3], [3, 2])
    assert sum(["4", 0] in v["updates"] for v in versions) == 1


# ---- folders --------------------------------------------------------------------------


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
    assert again._grid.pushed[0].metadata.group_id == "3"


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


@pytest.mark.parametrize("other", [{"method": "weighted"}, {"method": "unweighted", "seed": 1}])
def test_a_run_goes_on_with_its_own_method_and_seed(other, tmp_path):
    start(strategy(tmp_path), late_grid({3: 1.0, 4: 1.0}), rounds=1)
    it = Unstale(small_model(), folder=tmp_path / "run", **other)
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


# ---- settings -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"fraction_train": 0.0},
        {"fraction_train": True},
        {"fraction_evaluate": 1.5},
        {"min_train_nodes": 0},
        {"max_reply_bytes": 0},
        {"arrayrecord_key": "config"},
    ],
)
def test_settings_are_checked(options):
    with pytest.raises(ConfigError, match="should"):
        strategy(**options)


def test_a_model_that_flower_cannot_carry_is_refused_at_once():
    with pytest.raises(ConfigError, match="bfloat16"):
        Unstale(nn.Linear(2, 1).bfloat16())


def test_shared_weights_and_buffers_travel_under_all_their_names():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(2, 2, bias=False)
            self.two = nn.Linear(2, 2, bias=False)
            self.two.weight = self.one.weight
            self.register_buffer("scale", torch.tensor(3))

    def client(message):
        model = Shared()
        state = message.content["arrays"].to_torch_state_dict()
        model.load_state_dict(state)
        with torch.no_grad():
            model.one.weight += 1.0
        return RecordDict(
            {
                "arrays": ArrayRecord(model.state_dict()),
                "metrics": MetricRecord({"num-examples": 3}),
            }
        )

    model = Shared()
    it = Unstale(model, "unweighted")
    result = start(it, late_grid({3: 1.0, 4: 1.0}, {3: client, 4: client}), rounds=1)
    assert set(result.arrays) == {"one.weight", "two.weight", "scale"}
    torch.testing.assert_close(it.server.params["one.weight"], model.one.weight.detach() + 1.0)


def test_a_strategy_around_it_is_told_why_not():
    it = strategy()
    with pytest.raises(ConfigError, match="itself"):
        it.configure_train(1, ArrayRecord(), ConfigRecord(), late_grid({3: 1.0}))


def test_progress_is_logged_without_a_folder_too(caplog):
    with caplog.at_level(logging.INFO, logger="unstale"):
        start(strategy(), late_grid({3: 1.0, 4: 1.0}, {4: claims(-1)}), rounds=1)
    assert "Round 1 of 1" in caplog.text
    assert "num_examples" in caplog.text
