"""Robust aggregators against their formulas, worked out in plain Python on tiny updates."""

import itertools
import math
import statistics

import pytest
import torch

import unstale as us
from unstale.errors import ConfigError
from unstale.methods import DirectionBound, FedAvg, Krum, Median, MultiKrum, NormBound, TrimmedMean
from unstale.methods.aggregate.krum import scores
from unstale.methods.aggregate.robust import counted
from unstale.seeding import generator

EACH = [Median(), TrimmedMean(), Krum(), MultiKrum(), NormBound(), DirectionBound()]


def some(update, n, seed=0):
    rows = torch.randn(n, 3, generator=generator(seed, "rows"), dtype=torch.float64).tolist()
    return [update(f"c{i:02d}", 0, row, examples=i + 1) for i, row in enumerate(rows)]


def rows_of(updates):
    return [u.delta["w"].tolist() for u in updates]


def distance(a, b):
    return math.fsum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def size(row):
    return math.sqrt(math.fsum(x * x for x in row))


def close(found, wanted):
    return found["w"].tolist() == pytest.approx(wanted, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("n", range(1, 9))
def test_the_median_of_every_coordinate(update, view, n):
    arrivals = some(update, n)
    wanted = [statistics.median(column) for column in zip(*rows_of(arrivals), strict=True)]
    assert close(Median().apply(arrivals, {}, view).delta, wanted)


@pytest.mark.parametrize(("n", "k"), [(1, 0), (2, 0), (3, 1), (4, 1), (10, 2), (11, 3)])
def test_the_mean_without_the_extremes(update, view, n, k):
    arrivals = some(update, n)
    columns = [sorted(column) for column in zip(*rows_of(arrivals), strict=True)]
    wanted = [statistics.fmean(column[k : n - k]) for column in columns]
    assert TrimmedMean(share=0.2).trimmed(n) == k
    assert close(TrimmedMean(share=0.2).apply(arrivals, {}, view).delta, wanted)


@pytest.mark.parametrize(("n", "f"), [(3, 0), (5, 1), (7, 2), (9, 3)])
def test_krum_scores_by_all_choices_of_neighbours(update, n, f):
    rows = rows_of(arrivals := some(update, n))
    wanted = [
        min(
            math.fsum(distance(rows[i], rows[j]) for j in near)
            for near in itertools.combinations([j for j in range(n) if j != i], n - f - 2)
        )
        for i in range(n)
    ]
    assert scores(arrivals, f).tolist() == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("n", [3, 5, 8, 10])
def test_krum_is_the_update_of_the_lowest_score(update, view, n):
    arrivals = some(update, n)
    rows, f = rows_of(arrivals), Krum(share=0.2).attackers(n)
    by_hand = [
        sum(sorted(distance(row, other) for j, other in enumerate(rows) if j != i)[: n - f - 2])
        for i, row in enumerate(rows)
    ]
    best = by_hand.index(min(by_hand))
    found = Krum(share=0.2).apply(arrivals, {}, view)
    assert close(found.delta, rows[best])
    assert len(found.notes) == n - 1
    assert {note.kind for note in found.notes} == {"left_out"}
    # Multi-Krum: the mean by examples of those with the lowest scores.
    for keep in (1, 2, n):
        near = sorted(range(n), key=by_hand.__getitem__)[:keep]
        total = sum(arrivals[i].num_examples for i in near)
        wanted = [
            sum(arrivals[i].num_examples * rows[i][j] for i in near) / total for j in (0, 1, 2)
        ]
        assert close(MultiKrum(share=0.2, keep=keep).apply(arrivals, {}, view).delta, wanted)
    assert MultiKrum(share=0.2).kept(n) == n - f


@pytest.mark.parametrize(("n", "f"), [(3, 0), (4, 0), (5, 1), (6, 1), (7, 2), (20, 8)])
def test_krum_has_enough_updates_for_its_f(n, f):
    assert Krum(share=0.4).attackers(n) == f
    assert n >= 2 * f + 3


@pytest.mark.parametrize("rule", [Krum, MultiKrum])
def test_one_or_two_updates_have_no_neighbours(rule, update, view):
    two = some(update, 2)
    mean = FedAvg().apply(two, {}, view).delta["w"].tolist()
    assert close(rule().apply(two, {}, view).delta, mean)
    skipped = rule(few="skip").apply(two, {}, view)
    assert skipped.delta is None
    assert [note.kind for note in skipped.notes] == ["left_out", "left_out"]


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_long_updates_are_shortened(update, view, factor):
    arrivals = some(update, 7)
    rows = rows_of(arrivals)
    limit = factor * statistics.median(size(row) for row in rows)
    short = [[x * min(1.0, limit / size(row)) for x in row] for row in rows]
    total = sum(u.num_examples for u in arrivals)
    wanted = [
        sum(u.num_examples * row[j] for u, row in zip(arrivals, short, strict=True)) / total
        for j in range(3)
    ]
    found = NormBound(factor).apply(arrivals, {}, view)
    assert close(found.delta, wanted)
    longer = {u.client_id for u, row in zip(arrivals, rows, strict=True) if size(row) > limit}
    assert {note.client_id for note in found.notes} == longer
    assert all(note.kind == "bounded" for note in found.notes)


@pytest.mark.parametrize("reference", ["mean", "median"])
@pytest.mark.parametrize("least", [-0.3, 0.0, 0.4])
def test_updates_that_point_away_are_left_out(update, view, reference, least):
    arrivals = some(update, 8)
    rows = rows_of(arrivals)
    middle = statistics.fmean if reference == "mean" else statistics.median
    used = [[x / size(row) for x in row] if reference == "mean" else row for row in rows]
    towards = [middle(column) for column in zip(*used, strict=True)]

    def cosine(row):
        return math.fsum(map(math.prod, zip(row, towards, strict=True))) / size(row) / size(towards)

    kept = [u for u, row in zip(arrivals, rows, strict=True) if cosine(row) >= least]
    assert 0 < len(kept) < 8
    found = DirectionBound(least, reference).apply(arrivals, {}, view)
    assert close(found.delta, FedAvg().apply(kept, {}, view).delta["w"].tolist())
    assert {n.client_id for n in found.notes} == {u.client_id for u in arrivals if u not in kept}


@pytest.mark.parametrize("rule", EACH, ids=lambda rule: type(rule).__name__)
def test_what_all_have_in_common(rule, update, view):
    assert rule.apply([], rule.init(), view).delta is None
    nothing = [update("a", 0, [9.0, 9.0, 9.0], weight=0.0)]
    assert rule.apply(nothing, rule.init(), view).delta is None
    # Weight 0 is as if it had not come; one update alone is used.
    one = update("b", 3, [1.0, -2.0, 3.0], 7)
    assert close(rule.apply([one, *nothing], rule.init(), view).delta, [1.0, -2.0, 3.0])
    # Equal updates give what they all say.
    equal = [update(f"c{i}", i, [1.0, -2.0, 3.0], i + 1) for i in range(6)]
    assert close(rule.apply(equal, rule.init(), view).delta, [1.0, -2.0, 3.0])
    # The names, types and inputs stay.
    arrivals = some(update, 6)
    before = rows_of(arrivals)
    found = rule.apply(arrivals, rule.init(), view).delta
    assert found["w"].dtype == torch.float64
    assert rows_of(arrivals) == before


@pytest.mark.parametrize("rule", [Median(), TrimmedMean(), Krum()], ids=lambda r: type(r).__name__)
def test_claimed_examples_do_not_count(rule, update, view):
    honest = some(update, 7)
    claimed = [us.Update(u.client_id, 10, u.delta, 10**6 * u.num_examples) for u in honest]
    one, other = (rule.apply(arrivals, {}, view).delta["w"] for arrivals in (honest, claimed))
    assert torch.equal(one, other)


@pytest.mark.parametrize("rule", EACH, ids=lambda rule: type(rule).__name__)
def test_one_huge_update_of_many_does_not_rule(rule, update, view):
    crowd = [update(f"c{i}", 0, [1.0 + i / 10, 1.0, 1.0]) for i in range(9)]
    bad = update("x", 0, [-1e6, -1e6, -1e6])
    assert size(FedAvg().apply([*crowd, bad], {}, view).delta["w"].tolist()) > 1e5
    assert size(rule.apply([*crowd, bad], {}, view).delta["w"].tolist()) < 3
    assert counted([*crowd, bad]) == [*crowd, bad]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TrimmedMean(share=0.5), "trimmed_mean: `share`"),
        (lambda: TrimmedMean(share=math.nan), "`share`"),
        (lambda: Krum(share=-0.1), "krum: `share`"),
        (lambda: Krum(few="error"), "krum: `few`"),
        (lambda: MultiKrum(keep=0), "multi_krum: `keep`"),
        (lambda: NormBound(factor=0), "norm_bound: `factor`"),
        (lambda: NormBound(then="nope"), "An aggregator should be one of"),
        (lambda: NormBound(then=us.Drop(5)), "`aggregator` should be a name"),
        (lambda: DirectionBound(least=2), "direction_bound: `least`"),
        (lambda: DirectionBound(reference="best"), "direction_bound: `reference`"),
    ],
)
def test_settings_are_checked(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
