"""Functions of the user's own that aggregate metrics, with FedAvg's signatures and semantics."""

import logging
import math

import numpy as np
import pytest
from flwr.app import ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from pretend_clients import ClientsGrid, claims, examples_of, honest, late_grid
from strategy_runs import of_kind, start, strategy

from unstale.errors import ConfigError
from unstale.flower import Cohort
from unstale.flower.kept_records import records_as_json, records_from_json

pytestmark = pytest.mark.usefixtures("in_a_run")

PAIR = {3: 1.0, 4: 1.0}


def tells(**more):
    """A client that sends more than numbers."""

    def client(message):
        content = honest(message)
        content["metrics"].update(more)
        content["site"] = ConfigRecord(
            {"name": f"site {message.metadata.dst_node_id}", "key": b"\0k"}
        )
        return content

    return client


class Function:
    """Notes what it is called with."""

    def __init__(self, result=None):
        self.calls = []
        self.result = result or (lambda records, key: MetricRecord({"seen": len(records)}))

    def __call__(self, records, key):
        self.calls.append((records, key))
        return self.result(records, key)


def numbers(function):
    """The metrics of every call."""
    return [[dict(r["metrics"]) for r in records] for records, _ in function.calls]


def test_flowers_own_function_gives_what_fedavg_gives():
    """Lists too, which the plain mean leaves out."""
    theirs = FedAvg().train_metrics_aggr_fn
    clients = {3: tells(hits=[1, 2]), 4: tells(hits=[5, 10])}
    found = start(
        strategy(train_metrics_aggr_fn=theirs), late_grid(PAIR, clients), rounds=2
    ).train_metrics_clientapp
    a, b = examples_of(3), examples_of(4)
    assert list(found) == [1, 2]
    assert found[2]["hits"] == pytest.approx([(a + 5 * b) / (a + b), (2 * a + 10 * b) / (a + b)])
    assert found[2]["loss"] == pytest.approx(1.0)
    plain = start(strategy(), late_grid(PAIR, clients), rounds=2).train_metrics_clientapp
    assert dict(plain[2]) == {"loss": 1.0}


def test_it_gets_all_records_but_the_arrays_as_they_were_sent():
    function = Function()
    clients = {3: tells(hits=[1, 2], odd=math.nan)}
    found = start(
        strategy(train_metrics_aggr_fn=function), late_grid(PAIR, clients), rounds=1
    ).train_metrics_clientapp
    ((records, key),) = function.calls
    assert key == "num-examples"
    assert all(isinstance(record, RecordDict) for record in records)
    first, second = records
    assert sorted(first) == ["metrics", "site"]
    assert sorted(second) == ["metrics"]
    assert first["metrics"]["num-examples"] == examples_of(3)
    assert first["metrics"]["hits"] == [1, 2]
    assert math.isnan(first["metrics"]["odd"])
    assert dict(first["site"]) == {"name": "site 3", "key": b"\0k"}
    assert dict(found[1]) == {"seen": 2}


def test_a_late_reply_is_in_the_round_that_uses_it():
    function = Function()
    grid = late_grid(PAIR, delay=lambda node: 2 * (node == 4))
    start(strategy(train_metrics_aggr_fn=function), grid, rounds=3)
    # The loss of an honest client is the version that it worked on.
    found = [sorted((m["num-examples"], m["loss"]) for m in call) for call in numbers(function)]
    fast, slow = examples_of(3), examples_of(4)
    assert found == [[(fast, 0.0)], [(fast, 1.0)], sorted([(fast, 2.0), (slow, 0.0)])]


def test_refused_replies_are_left_out_and_without_any_it_is_not_called():
    function = Function()
    start(strategy(train_metrics_aggr_fn=function), late_grid(PAIR, {4: claims(-1)}), rounds=1)
    assert [len(records) for records, _ in function.calls] == [1]
    silent = Function()
    bad = dict.fromkeys(PAIR, claims(-1))
    result = start(strategy(train_metrics_aggr_fn=silent), late_grid(PAIR, bad), rounds=1)
    assert silent.calls == []
    assert result.train_metrics_clientapp == {}


def raises(records, key):
    raise ZeroDivisionError("no site has told its name")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (raises, "`train_metrics_aggr_fn` raised an error. The round goes on without"),
        (lambda records, key: {"a": 1}, "should return a MetricRecord. Found dict"),
    ],
)
def test_what_it_does_wrong_is_said_and_costs_nothing_else(wrong, said, tmp_path, caplog):
    undisturbed = start(strategy(), late_grid(PAIR), rounds=3).arrays
    it = strategy(tmp_path, train_metrics_aggr_fn=wrong)
    with caplog.at_level(logging.ERROR, logger="unstale.flower.metrics"):
        result = start(it, late_grid(PAIR), rounds=3)
    assert caplog.text.count(said) == 3, "once in every round"
    assert ("no site has told its name" in caplog.text) == (wrong is raises)
    assert np.array_equal(result.arrays["weight"].numpy(), undisturbed["weight"].numpy())
    assert result.train_metrics_clientapp == {}
    assert len(of_kind(tmp_path / "run", "accepted")) == 6
    assert of_kind(tmp_path / "run", "lost") == []


def test_it_may_have_nothing_to_say(caplog):
    it = strategy(train_metrics_aggr_fn=lambda records, key: None)
    assert start(it, late_grid(PAIR), rounds=1).train_metrics_clientapp == {}
    assert "train_metrics_aggr_fn" not in caplog.text


@pytest.mark.parametrize("before", [True, False], ids=["with it", "without it"])
def test_records_of_a_process_that_died_are_there_in_the_next(before, tmp_path):
    """The reply to version 1 was accepted, the version that used it was never written."""

    def dies(version, arrays):
        if version == 2:
            raise RuntimeError("killed")

    clients = {3: tells(odd=math.inf)}
    first = strategy(tmp_path, train_metrics_aggr_fn=Function() if before else None)
    with pytest.raises(RuntimeError, match="killed"):
        start(first, late_grid(PAIR, clients), rounds=3, evaluate_fn=dies)
    function = Function()
    grid = late_grid(PAIR, clients)
    start(strategy(tmp_path, train_metrics_aggr_fn=function), grid, rounds=2, resume=True)
    records, _ = function.calls[0]
    (record,) = [r for r in records if r["metrics"]["num-examples"] == examples_of(3)]
    assert record["metrics"]["loss"] == 1.0
    if before:  # all of it
        assert record["metrics"]["odd"] == math.inf
        assert record["site"]["name"] == "site 3"
    else:  # what any run keeps
        assert sorted(record["metrics"]) == ["loss", "num-examples"]
    assert grid.below.pushed == [], "nothing was asked again"


def test_nothing_is_kept_without_a_function(tmp_path):
    def stops(version, arrays):
        if version == 1:
            raise RuntimeError("stop")

    it = strategy(tmp_path)
    with pytest.raises(RuntimeError, match="stop"):
        start(it, late_grid(PAIR, {3: tells()}), rounds=1, evaluate_fn=stops)
    kept = [path.read_bytes() for path in (tmp_path / "run/journal").iterdir()]
    assert len(kept) == 2
    assert not any(b"site 3" in content for content in kept)


class Evaluating(ClientsGrid):
    """Nodes that tell a list when they evaluate; one of them leaves out its examples."""

    def pull_messages(self, message_ids):
        asked = {m.metadata.message_id: m for m in self.pushed}
        replies = super().pull_messages(message_ids)
        for one in replies:
            sent = asked[one.metadata.reply_to_message_id]
            if sent.metadata.message_type == "evaluate":
                node = sent.metadata.dst_node_id
                told = {"f1": node / 10, "by-class": [0.1 * node, 0.5]}
                examples = {} if node == 5 else {"num-examples": node}
                one.content = RecordDict({"m": MetricRecord({**examples, **told})})
        return replies


def evaluating_grid():
    grid = late_grid({3: 1.0, 4: 1.0, 5: 1.0})
    grid.below.__class__ = Evaluating
    return grid


def test_evaluations_are_aggregated_likewise_and_reach_the_runs_lines(tmp_path):
    def worst(records, key):
        found = [record["m"] for record in records]
        by_class = zip(*(one["by-class"] for one in found), strict=True)
        return MetricRecord(
            {
                "worst-f1": min(one["f1"] for one in found),
                "examples": sum(one[key] for one in found),
                "by-class": [max(values) for values in by_class],
            }
        )

    it = strategy(tmp_path, cohort=Cohort(fraction_evaluate=1.0), evaluate_metrics_aggr_fn=worst)
    result = start(it, evaluating_grid(), rounds=1)
    found = dict(result.evaluate_metrics_clientapp[1])
    assert found == {"worst-f1": 0.3, "examples": 7, "by-class": [0.4, 0.5]}  # not node 5
    (path,) = (tmp_path / "run/rounds").rglob("*.jsonl")
    assert '"worst_f1":0.3' in path.read_text().replace(" ", "")


def test_an_evaluation_that_fails_ends_no_run(caplog):
    it = strategy(cohort=Cohort(fraction_evaluate=1.0), evaluate_metrics_aggr_fn=raises)
    result = start(it, evaluating_grid(), rounds=2)
    assert result.evaluate_metrics_clientapp == {}
    assert "`evaluate_metrics_aggr_fn` raised an error" in caplog.text


@pytest.mark.parametrize("name", ["train_metrics_aggr_fn", "evaluate_metrics_aggr_fn"])
def test_it_should_be_a_function(name):
    with pytest.raises(ConfigError, match=f"`{name}` should be a function, as FedAvg's"):
        strategy(**{name: "mean"})


def test_records_through_json():
    whole = RecordDict({
        "m": MetricRecord({"a": 1, "b": -0.0, "c": [1.5, -math.inf], "d": []}),
        "c": ConfigRecord({"s": "é", "b": b"\xff", "l": [b"1", b""], "t": True, "f": math.nan}),
    })  # fmt: skip
    back = records_from_json(records_as_json(whole))
    assert str(back) == str(whole)
    assert isinstance(back["m"], MetricRecord)
    assert isinstance(back["c"], ConfigRecord)
