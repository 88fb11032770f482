"""Replies that the strategy refuses, and work that fails: neither harms the run."""

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from pretend_clients import (
    claims,
    honest,
    late_grid,
    lies_about_version,
    npy,
    sends,
    small_model,
)
from strategy_runs import NODES, of_kind, start, strategy

import unstale as us
from unstale.flower import ReplyLimits
from unstale.run_folder import Lines

pytestmark = pytest.mark.usefixtures("in_a_run")

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
    server = us.ServerSettings(limits=us.Limits(max_norm=1e3))
    evil = late_grid(dict.fromkeys(NODES, 1.0), {4: HOSTILE[name]})
    it = strategy(tmp_path, server)
    found = start(it, evil).arrays.to_torch_state_dict()
    without = late_grid({n: 1.0 for n in NODES if n != 4})
    wanted = start(strategy(server=server), without).arrays.to_torch_state_dict()
    for key, value in wanted.items():
        assert torch.equal(found[key], value)
    refused = of_kind(tmp_path / "run", "refused")
    assert {(e["node"], e["code"]) for e in refused} == {("4", code)}
    assert [v["refused"] for v in of_kind(tmp_path / "run", "version")] == [{code: 1}] * 3
    (path,) = (tmp_path / "run" / "rounds").rglob("*.jsonl")
    assert [line.refused for line in Lines(path).read()] == [{code: 1}] * 3
    assert all(len(e["reason"]) > 20 for e in refused)
    assert it.server.outstanding == []


def test_a_reply_that_does_not_even_decode_in_flower_is_a_failure(tmp_path):
    grid = late_grid({3: 1.0, 4: 1.0})
    grid.below.garbage.add(4)
    it = strategy(tmp_path)
    start(it, grid)
    failed = of_kind(tmp_path / "run", "failed")
    assert {e["code"] for e in failed if e["node"] == "4"} == {"unreadable"}
    assert it.server.outstanding == []


def test_a_client_that_raises_costs_only_its_own_work(tmp_path):
    grid = late_grid(dict.fromkeys(NODES, 1.0))
    grid.below.codes[4] = 2
    it = strategy(tmp_path)
    start(it, grid)
    assert {(e["node"], e["code"]) for e in of_kind(tmp_path / "run", "failed")} == {
        ("4", "failed")
    }
    assert all(len(v["updates"]) == 2 for v in of_kind(tmp_path / "run", "version"))
    assert it.server.outstanding == []


def test_a_limit_of_examples_is_per_node(tmp_path):
    it = strategy(tmp_path, us.ServerSettings(limits=us.Limits(max_examples=13)))
    start(it, late_grid({3: 1.0, 4: 1.0}), rounds=1)  # of 13 and 14 examples
    assert [e["node"] for e in of_kind(tmp_path / "run", "refused")] == ["4"]


def test_a_limit_of_bytes_is_a_setting(tmp_path):
    it = strategy(tmp_path, reply_limits=ReplyLimits(max_bytes=10))
    start(it, late_grid({3: 1.0, 4: 1.0}), rounds=1)
    assert [e["code"] for e in of_kind(tmp_path / "run", "refused")] == ["size", "size"]
    assert torch.equal(it.server.params["bias"], small_model().bias)
