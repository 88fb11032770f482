import math

import pytest

from unstale.run_folder import Round
from unstale.run_folder.schema import Checked, Nodes, StoodIn
from unstale.sinks import scalars_of, summary_scalars


def test_a_round_by_name():
    line = Round(
        6,
        accuracy=0.5,
        loss=1.25,
        arrivals=4,
        stale=1,
        staleness={0: 3, 8: 1},
        refused={"not_finite": 2},
        seconds=0.5,
        metrics={"macro f1": 0.4, "per_class": (0.1, 0.2)},
        oracle={"stale_cosine": 0.3, "stale_l1": None},
        nodes=Nodes(answered=("7", "8"), working={"9": 3}),
    )
    found = scalars_of(line, {"too_late"})
    assert {
        "accuracy/all": 0.5,
        "loss/test": 1.25,
        "arrivals/all": 4.0,
        "arrivals/stale": 1.0,
        "staleness/mean": 2.0,
        "staleness/max": 8.0,
        "nodes/answered": 2.0,
        "nodes/working": 1.0,
        "nodes/longest_work": 3.0,
        "refused/all": 2.0,
        "refused/not_finite": 2.0,
        "refused/too_late": 0.0,
        "metrics/macro_f1": 0.4,
        "oracle/stale_cosine": 0.3,
        "seconds/round": 0.5,
    }.items() <= found.items()
    assert not {"accuracy/affected", "seconds/step", "metrics/per_class"} & {*found}
    assert "oracle/stale_l1" not in found
    assert not [name for name in scalars_of(Round(1)) if name.startswith("nodes/")]


def test_stand_ins_are_counted_with_their_age_and_their_error():
    stood_in = (StoodIn("a", age=3), StoodIn("b", age=6))
    checked = (Checked("a", 3, error=0.25, share=1.0), Checked("b", 3, error=None, share=None))
    found = scalars_of(Round(3, absent=4, stand_ins=stood_in, checked=checked))
    assert (found["stand_ins/absent"], found["stand_ins/count"]) == (4.0, 2.0)
    assert (found["stand_ins/mean_age"], found["stand_ins/error"]) == (4.5, 0.25)
    without = scalars_of(Round(3))
    assert without["stand_ins/count"] == 0
    assert not {"stand_ins/mean_age", "stand_ins/error"} & {*without}


def test_what_waits_in_the_background_is_told_where_there_is_one():
    assert "conversions/awaiting_fit" not in scalars_of(Round(1))
    assert scalars_of(Round(1, awaiting_fit=2))["conversions/awaiting_fit"] == 2.0


@pytest.mark.parametrize(
    ("name", "plain"), [("a b", "a_b"), ("ä/é", "_/_"), ('x"; DROP', "x___DROP"), ("x=1", "x_1")]
)
def test_foreign_names_are_made_plain(name, plain):
    assert scalars_of(Round(1, metrics={name: 1.0}))[f"metrics/{plain}"] == 1.0


def test_no_value_that_is_no_number():
    figures = {"accuracy": math.nan, "a": math.inf, "b": None, "diverged": True, "held_from": 8}
    assert summary_scalars(figures) == {"summary/diverged": 1.0, "summary/held_from": 8.0}
