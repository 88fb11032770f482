import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.report.figures.series import Series, over_rounds, totals, trailing_means
from unstale.report.records import Round
from unstale.run_folder.time_to_target import held_from

values = st.one_of(st.none(), st.floats(0, 1))
seeds = st.dictionaries(st.integers(0, 4), st.lists(values, max_size=60), max_size=4)


def rounds(accuracies):
    return tuple(Round(i + 1, accuracy=v) for i, v in enumerate(accuracies))


@given(seeds, st.integers(1, 20))
def test_lines_lie_within_their_bands_and_stay_short(by_seed, max_points):
    line = over_rounds({s: rounds(v) for s, v in by_seed.items()}, lambda r: r.accuracy, max_points)
    assert len(line.x) == len(line.mean) == len(line.low) == len(line.high) <= max_points
    assert list(line.x) == sorted(set(line.x))
    for low, mean, high in zip(line.low, line.mean, line.high, strict=True):
        assert low - 1e-12 <= mean <= high + 1e-12
    found = [v for accuracies in by_seed.values() for v in accuracies if v is not None]
    assert bool(line) == bool(found)
    if found:
        assert min(line.low) == min(found)
        assert max(line.high) == max(found)


def test_the_mean_is_over_the_seeds_that_have_the_round():
    line = over_rounds({0: rounds([0.2, 0.4, 0.6]), 1: rounds([0.4, None])}, lambda r: r.accuracy)
    assert line.x == (1, 2, 3)
    assert line.mean == pytest.approx((0.3, 0.4, 0.6))
    assert line.low == pytest.approx((0.2, 0.4, 0.6))
    assert line.high == pytest.approx((0.4, 0.4, 0.6))


def test_thinning_takes_means_of_neighbours():
    line = over_rounds({0: rounds([0.1, 0.3, 0.5, 0.7])}, lambda r: r.accuracy, max_points=2)
    assert line.x == (2, 4)
    assert line.mean == pytest.approx((0.2, 0.6))
    assert line.low == (0.1, 0.5)
    assert line.high == (0.3, 0.7)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(1, 9))
def test_totals_end_at_the_sum_however_thinned(counted, max_points):
    lines = tuple(Round(i + 1, conversions=n) for i, n in enumerate(counted))
    line = totals({0: lines}, lambda r: r.conversions, max_points)
    if not sum(counted):
        assert not line
        return
    assert line.mean[-1] == sum(counted)
    assert line.x[-1] == len(counted)
    assert list(line.mean) == sorted(line.mean)
    assert len(line.x) <= max_points


def test_a_logarithmic_axis_gets_only_what_it_can_show():
    line = Series((1, 2, 3), (0.0, 0.5, 0.2), (0.0, 0.0, 0.1), (0.0, 1.0, 0.3)).above_zero()
    assert line == Series((2, 3), (0.5, 0.2), (0.05, 0.1), (1.0, 0.3))


def test_smoothing_is_done_seed_by_seed_over_rounds_not_points():
    """The mean looks back over rounds; the band holds the smoothed seeds, not the raw ones."""
    by_seed = {
        0: [Round(t, accuracy=float(t % 2)) for t in range(1, 7)],
        1: [Round(t, accuracy=0.0) for t in range(1, 7)],
    }
    line = over_rounds(by_seed, lambda r: r.accuracy, window=2)
    assert line.high == (1.0, 0.5, 0.5, 0.5, 0.5, 0.5)
    assert line.low == (0.0,) * 6
    apart = {0: [Round(t, accuracy=float(t)) for t in (1, 5, 6)]}
    assert over_rounds(apart, lambda r: r.accuracy, window=3).mean == (1.0, 5.0, 5.5)


def test_the_smoothed_line_reaches_the_target_where_the_table_says():
    scores = [(t, min(1.0, t / 50) * (0.9 if t % 3 else 1.0)) for t in range(1, 101)]
    smoothed = trailing_means(scores, 10)
    below = max(at for at, value in smoothed if value < 0.8)
    assert held_from(scores, 0.8, 10) == below + 1
