"""Asyn-Tiers against the paper's weighing by clients and FedAT's own reversed one."""

import copy

import pytest

from unstale.errors import ConfigError
from unstale.methods.aggregate import Tiers


def test_tiers_by_staleness():
    tiers = Tiers(bounds=(0, 20))
    assert [tiers.tier(s) for s in (0, 1, 20, 21, 10**9)] == [0, 1, 1, 2, 2]


def test_within_a_tier_the_mean_is_by_examples(update, view):
    arrivals = [update("a", 0, [4.0, 0.0, -8.0], 30), update("b", 0, [0.0, 8.0, 8.0], 10)]
    tiers = Tiers()
    assert tiers.apply(arrivals, tiers.init(), view).delta["w"].tolist() == [3.0, 2.0, -4.0]


def test_tiers_are_weighed_by_their_clients_not_their_examples(update, view):
    # Fresh tier: three clients, mean (1, 1, 1). Stale tier: one client of 1000 examples.
    fresh = [update(c, 0, [1.0, 1.0, 1.0], 1) for c in "abc"]
    slow = update("z", 5, [5.0, 9.0, -3.0], 1000)
    tiers = Tiers()
    found = tiers.apply([*fresh, slow], tiers.init(), view).delta["w"]
    # 3/4 * 1 + 1/4 * (5, 9, -3)
    assert found.tolist() == [2.0, 3.0, 0.0]


def test_clients_of_a_tier_are_all_that_were_seen_there(update, view):
    tiers = Tiers()
    state = tiers.apply([update(c, 0, [0.0] * 3) for c in "abc"], tiers.init(), view).state
    # Now only `a` is fast and one slow client comes: the fast tier still has three clients.
    arrivals = [update("a", 0, [4.0, 0.0, 0.0]), update("z", 3, [0.0, 4.0, 8.0])]
    result = tiers.apply(arrivals, state, view)
    assert result.delta["w"].tolist() == [3.0, 1.0, 2.0]
    assert result.state["tier_of"] == {"a": 0, "b": 0, "c": 0, "z": 1}


def test_a_client_that_becomes_slow_changes_its_tier(update, view):
    tiers = Tiers()
    state = tiers.apply([update(c, 0, [0.0] * 3) for c in "ab"], tiers.init(), view).state
    arrivals = [update("a", 0, [4.0, 0.0, 0.0]), update("b", 3, [0.0, 4.0, 8.0])]
    assert tiers.apply(arrivals, state, view).delta["w"].tolist() == [2.0, 2.0, 4.0]


def test_reversed_weighing_gives_a_tier_the_rounds_of_its_opposite(update, view):
    tiers = Tiers(weighing="reversed")
    state = tiers.init()
    for _ in range(2):  # the fast tier reports alone twice, then both: T = (3, 1)
        state = tiers.apply([update("a", 0, [0.0] * 3)], state, view).state
    both = [update("a", 0, [4.0, 0.0, 8.0]), update("z", 5, [0.0, 4.0, 0.0])]
    result = tiers.apply(both, state, view)
    # Fast gets T_slow = 1, slow gets T_fast = 3.
    assert result.delta["w"].tolist() == [1.0, 3.0, 2.0]
    assert result.state["rounds"] == [3, 1]


def test_reversed_weighing_works_before_the_opposite_tier_has_reported(update, view):
    tiers = Tiers(bounds=(0, 5), weighing="reversed")
    result = tiers.apply([update("a", 0, [4.0, 0.0, 8.0])], tiers.init(), view)
    assert result.delta["w"].tolist() == [4.0, 0.0, 8.0]


def test_no_arrivals_no_change(update, view):
    tiers = Tiers()
    assert tiers.apply([], tiers.init(), view).delta is None
    weightless = tiers.apply([update("a", 0, [1.0] * 3, 5, 0.0)], tiers.init(), view)
    assert weightless.delta is None


def test_the_state_is_passed_on_and_not_changed(update, view):
    tiers = Tiers()
    state = tiers.init()
    before = copy.deepcopy(state)
    tiers.apply([update("a", 0, [1.0] * 3)], state, view)
    assert state == before


def test_a_list_of_bounds_is_as_good_as_a_tuple():
    assert Tiers(bounds=[0, 5]) == Tiers(bounds=(0, 5))


@pytest.mark.parametrize("bounds", [(), (3, 3), (5, 2), (-1,), (0.5,), (0, float("inf"))])
def test_refuses_bounds_that_are_not_rising_integers(bounds):
    with pytest.raises(ConfigError, match="bounds"):
        Tiers(bounds=bounds)


def test_refuses_an_unknown_weighing():
    with pytest.raises(ConfigError, match="weighing"):
        Tiers(weighing="examples")
