"""How the line of a step tells of stand-ins: apart from arrivals, and as they were used."""

import dataclasses

import torch

import unstale as us
from unstale.updates import Update


def stand_in(client, weight):
    return Update(client, 6, {"w": torch.ones(2)}, 3, weight, stand_in=True)


def note(client, age, weight):
    return us.Note("stood_in", client, 6, {"age": age, "weight": weight})


def test_the_weight_is_the_one_that_was_used():
    """A wrapper, such as switching back, may lower it after the note was made."""
    used = (stand_in("a", 0.123456789), dataclasses.replace(stand_in("b", 9.0), stand_in=False))
    report = us.Report(7, (0,), (note("a", 4, 0.5), note("b", 5, 0.25)), used)
    line = report.to_json()
    assert line["stand_ins"] == [
        {"client": "a", "age": 4, "weight": 0.12346},
        {"client": "b", "age": 5, "weight": 0.25},
    ]


def test_stand_ins_are_no_arrivals():
    report = us.Report(7, (0, 3), (note("a", 4, 1.0),), (stand_in("a", 1.0),), absent=("a", "c"))
    line = report.line()
    assert (line.arrivals, line.stale, line.staleness) == (2, 1, {0: 1, 3: 1})
    assert (line.absent, len(line.stand_ins), line.conversions) == (2, 1, 0)


def test_a_check_is_told_with_five_digits():
    detail = {"age": 12, "error": 0.0123456789, "share": float("nan")}
    line = us.Report(7, (12,), (us.Note("checked", "a", 3, detail),)).to_json()
    assert line["checked"] == [{"client": "a", "age": 12, "error": 0.012346, "share": None}]
    note = us.Note("checked", "a", 3, {**detail, "l1": 0.123456789})
    assert us.Report(7, (12,), (note,)).to_json()["checked"][0]["l1"] == 0.12346


def test_a_comparison_is_told_with_five_digits():
    detail = {"lag": 7, "stale_error": 0.123456789, "error": 0.1, "share": 1.0, "late": True}
    notes = (us.Note("calibrated", "a", 3, detail), us.Note("probed", "b", 6, {"iterations": 9}))
    line = us.Report(7, (0,), notes).line()
    assert line.to_json()["calibrated"] == [
        {"client": "a", "lag": 7, "stale_error": 0.12346, "error": 0.1, "share": 1.0, "late": True}
    ]
    assert (line.iterations, line.conversions) == (9, 0), "what it costs is counted"
