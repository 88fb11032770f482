import pytest

from unstale.run_folder.time_to_target import WINDOW, held_from, rounds_saved


def points(*values, every=1):
    return [(i * every, value) for i, value in enumerate(values, start=1)]


def test_a_lucky_crossing_does_not_count():
    # The first round at 0.8 is 2; from 5 on the curve stays there.
    curve = points(0.1, 0.9, 0.1, 0.7, 0.9, 0.85, 0.95)
    assert held_from(curve, 0.8, window=1) == 5


def test_the_mean_is_a_trailing_one():
    curve = points(0.0, 0.0, 1.0, 1.0, 1.0, 1.0)
    # Means of the last four rounds: 0, 0, 1/3, 0.5, 0.75, 1.
    assert held_from(curve, 0.7, window=4) == 5
    assert held_from(curve, 0.8, window=4) == 6
    # The first rounds have fewer values before them: the mean of the first is the first.
    assert held_from(points(0.9, 0.9, 0.9), 0.8, window=10) == 1


def test_a_dip_that_the_window_covers_does_not_count_against_a_method():
    curve = points(*[0.9] * 6, 0.75, *[0.9] * 5)
    assert held_from(curve, 0.8, window=1) == 8
    assert held_from(curve, 0.8, window=3) == 1


def test_a_fall_at_the_end_is_not_held():
    curve = points(*[0.9] * 20, *[0.1] * 10)
    assert held_from(curve, 0.8, window=10) is None
    assert held_from(curve, 0.8, window=1) is None
    # One bad last round weighs a tenth: 0.9 · 9 / 10 + 0.1 / 10 = 0.82.
    assert held_from(points(*[0.9] * 20, 0.1), 0.8, window=10) == 1


def test_never_and_nothing():
    assert held_from(points(0.1, 0.2, 0.3), 0.8) is None
    assert held_from([], 0.8) is None
    assert held_from(points(1.0, 1.0), float("inf")) is None


@pytest.mark.parametrize("target", [0.1, 0.3, 0.7, 0.8])
def test_a_target_that_is_just_met_is_held(target):
    assert held_from(points(*[target] * 7), target, window=3) == 1
    assert held_from(points(*[target - 1e-6] * 7), target, window=3) is None


def test_the_window_is_in_rounds_whatever_is_evaluated():
    # Evaluated in rounds 5, 10, 15, 20: a window of 10 rounds holds two of them.
    curve = points(0.2, 0.9, 0.7, 0.9, every=5)
    assert held_from(curve, 0.8, window=10) == 15
    # A window that is no longer than the pause between evaluations smooths nothing.
    assert held_from(curve, 0.8, window=5) == 20
    # The last round is evaluated besides: 18, 20 and 21 are in the last four.
    assert held_from([(10, 0.1), (18, 1.0), (20, 0.5), (21, 0.9)], 0.8, window=4) == 21
    assert held_from([(10, 0.1), (18, 1.0), (20, 0.5), (21, 0.9)], 0.75, window=4) == 18


def test_the_order_of_points_does_not_matter():
    curve = points(0.1, 0.9, 0.1, 0.9, 0.9, 0.9)
    assert held_from(reversed(curve), 0.8, window=2) == held_from(curve, 0.8, window=2) == 5


def test_the_default_window():
    curve = points(*[0.0] * 10, *[1.0] * 20)
    assert held_from(curve, 0.95) == 10 + WINDOW


def test_rounds_saved_by_hand():
    found = rounds_saved({0: 50, 1: 120}, {0: 100, 1: 100})
    assert (found.rounds, found.seeds) == (15, 2)
    assert found.share == pytest.approx((0.5 - 0.2) / 2)
    assert found.spread == pytest.approx(0.7 / 2**0.5)


def test_the_papers_time_follows_from_what_is_saved():
    # Table "Model accuracy and percentage of training epochs being saved": its own method is 100.
    ours, unweighted = {3: 100}, {3: 142}
    assert 100 * (1 - rounds_saved(unweighted, ours).share) == pytest.approx(142)


def test_only_seeds_in_which_both_hold_the_target_are_compared():
    found = rounds_saved({0: 50, 1: None, 2: 10, 3: 40}, {0: 100, 1: 90, 2: None})
    assert (found.rounds, found.share, found.spread, found.seeds) == (50, 0.5, None, 1)
    assert rounds_saved({0: None}, {0: 10}) is None
    assert rounds_saved({0: 10}, {}) is None
