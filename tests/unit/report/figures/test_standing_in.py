"""Figures of stand-ins by hand, and what must not count them."""

import dataclasses

import pytest

from unstale.report.figures.conversions import fates_of
from unstale.report.figures.errors import L1
from unstale.report.figures.staleness import arrival_grids
from unstale.report.figures.standing_in import (
    StoodInFor,
    max_age,
    mean_age,
    mean_checked,
    stand_in_charts,
    standing_in,
    stood_in_for,
)
from unstale.report.records import Method, Round, Run
from unstale.run_folder.schema import Checked, Converted, StoodIn

M = Method("m", "convert")
ROUNDS = (
    Round(1, version=1, arrivals=1, staleness={0: 1}, absent=2),
    # Converted from version 0; then it stands in for the client, one version older each time.
    Round(
        2, version=2, arrivals=1, stale=1, staleness={1: 1}, conversions=1,
        notes={"converted": 1}, converted=(Converted("a", 0.1, 5, False, base_version=0),),
    ),
    Round(
        3, version=3, arrivals=1, staleness={0: 1}, absent=2,
        notes={"stood_in": 2}, stand_ins=(StoodIn("a", 2, 1.0, 1.6), StoodIn("b", 1, 0.4)),
    ),
    Round(
        4, version=4, absent=1, notes={"stood_in": 1, "checked": 2},
        stand_ins=(StoodIn("a", 3, 0.5),), oracle={"stand_in_cosine": 0.25, "stand_in_l1": 0.75},
        checked=(Checked("b", 1, 0.1, 1.0), Checked("a", 4, 0.3, 0.5), Checked("c", 1, None, None)),
    ),
    # A newer update of a: trained from version 3.
    Round(5, version=5, stand_ins=(StoodIn("a", 1),), checked=(Checked("a", 4, 0.2, 0.5, 0.6),)),
)  # fmt: skip


def run_of(*by_seed):
    rounds = {"m": dict(enumerate(by_seed))}
    return Run({}, {}, (M,), tuple(range(len(by_seed))), 5, rounds, {}, None, None, {})


def test_a_rounds_stand_ins_and_checks():
    assert [mean_age(r) for r in ROUNDS] == [None, None, 1.5, 3, 1]
    assert [max_age(r) for r in ROUNDS] == [None, None, 2, 3, 1]
    assert [mean_checked(r) for r in ROUNDS] == [None, None, None, pytest.approx(0.2), 0.2]
    assert [mean_checked(r, L1) for r in ROUNDS] == [None, None, None, None, 0.6]


def test_charts_by_round():
    age, checked, truth, checked_l1, truth_l1 = stand_in_charts(run_of(ROUNDS))
    assert [chart.key for chart in (age, checked, truth)] == [
        *("stand_in_age", "stand_in_checked", "stand_in_truth")
    ]
    mean, oldest = age.lines
    assert (mean.series.x, mean.series.mean) == ((3, 4, 5), (1.5, 3, 1))
    assert (oldest.variant, oldest.series.mean) == ("oldest", (2, 3, 1))
    assert (checked.lines[0].series.x, checked.lines[0].series.mean) == (
        (4, 5), pytest.approx((0.2, 0.2))
    )  # fmt: skip
    assert (truth.lines[0].series.x, truth.lines[0].series.mean) == ((4,), (0.25,))
    assert (checked_l1.key, truth_l1.key) == ("stand_in_checked_l1", "stand_in_truth_l1")
    assert checked_l1.lines[0].series.mean == (0.6,)
    assert truth_l1.lines[0].series.mean == (0.75,)


def test_one_stand_in_a_round_is_one_line():
    (age, *_) = stand_in_charts(run_of(ROUNDS[3:]))
    assert [line.variant for line in age.lines] == [""]


def test_who_was_stood_in_for():
    seed, found = stood_in_for(run_of(ROUNDS[:2], ROUNDS), M)
    assert seed == 1  # the first seed that has any
    means = pytest.approx(2.5 / 3), pytest.approx(1.2)
    a = StoodInFor("a", 3, 2.0, 3, *means, own=2, errors=(0.3, 0.2), l1=(0.6,))
    assert found == [a, StoodInFor("b", 1, 1.0, 1, 0.4, 1.0, own=1, errors=(0.1,))]


def test_without_stand_ins_there_is_nothing():
    run = run_of(ROUNDS[:2])
    assert standing_in(run) == []
    assert stand_in_charts(run) == []
    with pytest.raises(LookupError):
        stood_in_for(run, M)


def test_stand_ins_are_neither_arrivals_nor_stale_updates():
    """The charts of arrivals and of fates are the same as without them."""
    bare = tuple(
        dataclasses.replace(
            r, absent=0, stand_ins=(), checked=(),
            notes={k: n for k, n in r.notes.items() if k not in ("stood_in", "checked")},
        )
        for r in ROUNDS
    )  # fmt: skip
    assert fates_of(run_of(ROUNDS), "m") == fates_of(run_of(bare), "m")
    assert fates_of(run_of(ROUNDS), "m").values == {"converted": (0, 1, 0, 0, 0)}
    assert arrival_grids(run_of(ROUNDS)) == arrival_grids(run_of(bare))
