import json
import math

import numpy
import pytest

from unstale.flower.round_line import MAX_REASON, MAX_REFUSED, round_line
from unstale.run_folder import Round
from unstale.server.report import Report
from unstale.updates import Note


def line(**changes):
    told = {
        "report": Report(4, (0, 3), (), changed=True),
        "round": 4,
        "evaluation": {},
        "answered": ["b", "a"],
        "late": {"b": 3, "a": 0},
        "working": {"d": 2, "c": 0},
        "refused": [],
        "seconds": 5.5,
        **changes,
    }
    return round_line(told.pop("report"), **told)


def test_all_fields_of_the_simulator_are_there():
    """The fields that docs/experiments.md lists; what they hold is the report's own."""
    found = line().to_json()
    assert list(found)[:11] == [
        *("schema", "round", "version", "arrivals", "stale", "staleness"),
        *("changed", "refused", "notes", "conversions", "iterations"),
    ]
    assert {"history", "seconds", "accuracy", "affected_accuracy", "class_accuracy", "loss"} <= set(
        found
    )
    assert found["staleness"] == {"mean": 1.5, "max": 3, "counts": {"0": 1, "3": 1}}
    assert (found["round"], found["version"], found["seconds"]) == (4, 4, 5.5)


def test_nodes():
    assert line().nodes.to_json() == {
        "answered": ["a", "b"],
        "late": {"b": 3},
        "working": {"c": 0, "d": 2},
        "refused": [],
    }


@pytest.mark.parametrize("value", [math.nan, math.inf, None, "0.9", b"x", {"a": 1}])
def test_what_is_no_number_is_null(value):
    found = line(evaluation={"accuracy": value, "mine": value, "class-accuracy": [0.5, value]})
    assert found.accuracy is None
    assert found.metrics == {"mine": None}
    assert found.class_accuracy == (0.5, None)
    json.dumps(found.to_json(), allow_nan=False)


def test_scores_of_the_wrong_shape_are_null():
    """They could not be read back, so a client's mistake would cost the whole report."""
    found = line(evaluation={"accuracy": [0.5], "class-accuracy": 0.5, "mine": [0.5, math.nan]})
    assert (found.accuracy, found.class_accuracy) == (None, None)
    assert found.metrics == {"mine": (0.5, None)}
    assert Round.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_numbers_of_numpy_are_taken():
    found = line(evaluation={"accuracy": numpy.float32(0.5), "loss": numpy.int64(2)})
    assert (found.accuracy, found.loss) == (0.5, 2.0)
    json.dumps(found.to_json())


@pytest.mark.parametrize(
    ("by_server", "before", "expected"),
    [
        ({}, [], {}),
        ({"repeated": 1}, [], {"repeated": 1}),
        ({}, ["payload", "payload"], {"payload": 2}),
        # What the server refuses was not refused before, so equal codes are different replies.
        ({"shape": 1}, ["shape"], {"shape": 2}),
        ({"shape": 2}, ["shape", "payload", "shape"], {"payload": 1, "shape": 4}),
    ],
)
def test_each_refusal_counts_once(by_server, before, expected):
    report = Report(4, (), (), refused=by_server)
    found = line(report=report, refused=[("n", code, "why") for code in before])
    assert found.refused == expected


def test_foreign_text_is_bounded_and_on_one_line():
    found = line(refused=[("n", "payload", "bad\n\x1b[2J" + "x" * 10_000_000)] * 500)
    assert found.refused == {"payload": 500}
    told = found.nodes.refusals
    assert len(told) == MAX_REFUSED
    assert told[0].reason.startswith("bad  [2Jxxx")
    assert len(told[0].reason) == MAX_REASON


def test_conversions_are_told_one_by_one():
    note = Note("converted", "b", 1, {"loss": 0.0213456, "iterations": 25, "start": "warm"})
    found = line(report=Report(4, (3,), (note,)))
    assert found.conversions == 1
    assert found.iterations == 25
    assert [one.to_json() for one in found.converted] == [
        {"client": "b", "base_version": 1, "loss": 0.021346, "iterations": 25, "start": "warm"}
    ]
