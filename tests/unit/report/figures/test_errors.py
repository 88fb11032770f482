"""Errors against the truth in both distances, and in runs that know one of them."""

import pytest

from unstale.report.figures.errors import error_charts
from unstale.report.figures.switching import late_truth_charts
from unstale.report.html.error_table import error_table
from unstale.report.records import Method, Round, Run
from unstale.run_folder.schema import Measured

M = Method("m", "convert")
NOW = (
    Round(1, oracle={"stale_cosine": 0.4, "compensated_cosine": 0.1,
                     "stale_l1": 1.2, "compensated_l1": 0.6},
          measured=(Measured("a", 0.1, 0.4, 0, 0.5, 1.0), Measured("b", 0.3, 0.4, 0, 0.7, 1.2))),
    Round(2, oracle={"stale_cosine": 0.2, "compensated_cosine": 0.1,
                     "stale_l1": 0.8, "compensated_l1": 0.9}),
    Round(3, oracle={"stale_cosine": None, "compensated_cosine": None}),
)  # fmt: skip
BEFORE = (
    Round(1, oracle={"stale_cosine": 0.4, "compensated_cosine": 0.1},
          measured=(Measured("a", 0.1, 0.4),)),
)  # fmt: skip


def run_of(rounds):
    return Run({}, {}, (M,), (0,), 3, {"m": {0: rounds}}, {}, None, None, {})


def test_a_chart_for_each_distance():
    cosine, l1 = error_charts(run_of(NOW))
    assert (cosine.key, l1.key) == ("update_error", "update_error_l1")
    assert [line.variant for line in l1.lines] == ["", "as it arrived"]
    assert [line.series.mean for line in cosine.lines] == [(0.1, 0.1), (0.4, 0.2)]
    assert [line.series.mean for line in l1.lines] == [(0.6, 0.9), (1.2, 0.8)]
    assert (cosine.y.label, l1.y.label) == (
        "cosine distance to the true fresh update", "relative L1 error to the true fresh update"
    )  # fmt: skip


def test_the_table_has_both_distances():
    table = error_table(run_of(NOW))
    assert [(c.title, c.note) for c in table.columns][::3] == [
        ("As it arrived", "cosine distance"), ("As it arrived", "relative L1 error")
    ]  # fmt: skip
    (row,) = table.rows
    assert [cell.text for cell in row.cells] == [
        *("0.3000", "0.1000", "3.0 ×"), *("1.0000", "0.7500", "1.3 ×")
    ]  # fmt: skip


def test_a_run_of_before_has_a_dash_for_l1():
    run = run_of(BEFORE)
    assert [chart.key for chart in error_charts(run)] == ["update_error"]
    assert [chart.key for chart in late_truth_charts(run)] == ["late_truth"]
    (row,) = error_table(run).rows
    assert [cell.text for cell in row.cells] == ["0.4000", "0.1000", "4.0 ×", "–", "–", "–"]


def test_late_truths_in_both_distances():
    found, l1 = late_truth_charts(run_of(NOW))
    assert (found.key, l1.key) == ("late_truth", "late_truth_l1")
    assert [line.series.mean for line in found.lines] == [
        pytest.approx((0.2,)), pytest.approx((0.4,))
    ]  # fmt: skip
    assert [line.series.mean for line in l1.lines] == [
        pytest.approx((0.6,)), pytest.approx((1.1,))
    ]  # fmt: skip


def test_without_an_oracle_there_is_nothing():
    run = run_of((Round(1),))
    assert (error_charts(run), late_truth_charts(run), error_table(run)) == ([], [], None)
