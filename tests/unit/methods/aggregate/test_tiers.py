"""Asyn-Tiers against the paper's weighing by numbers of clients, and FedAT's reversed one."""

import copy

import pytest

from unstale.errors import ConfigError
from unstale.methods.aggregate import Tiers

FAST3_SLOW1 = {"a": 0.0, "b": 0.0, "c": 0.0, "z": 5.0}


def test_tiers_by_latency():
    tiers = Tiers(bounds=(0, 20))
    assert [tiers.tier(s) for s in (0, 0.5, 1, 20, 20.5, 10**9)] == [0, 1, 1, 1, 2, 2]


def test_within_a_tier_the_mean_is_by_examples(update, among):
    arrivals = [update("a", 0, [4.0, 0.0, -8.0], 30), update("b", 0, [0.0, 8.0, 8.0], 10)]
    tiers = Tiers()
    found = tiers.apply(arrivals, tiers.init(), among(FAST3_SLOW1)).delta["w"]
    assert found.tolist() == [3.0, 2.0, -4.0]


def test_tiers_are_weighed_by_their_clients_not_their_examples(update, among):
    # Fast tier: three clients, mean (1, 1, 1). Slow tier: one client of 1000 examples.
    fresh = [update(c, 0, [1.0, 1.0, 1.0], 1) for c in "abc"]
    slow = update("z", 5, [5.0, 9.0, -3.0], 1000)
    tiers = Tiers()
    found = tiers.apply([*fresh, slow], tiers.init(), among(FAST3_SLOW1)).delta["w"]
    # 3/4 * 1 + 1/4 * (5, 9, -3)
    assert found.tolist() == [2.0, 3.0, 0.0]


def test_the_size_of_a_tier_is_known_before_its_clients_have_answered(update, among):
    """One of ten slow clients answers, the first of all: its tier has its tenth at once."""
    clients = {f"fast-{i}": 0.0 for i in range(90)} | {f"slow-{i}": 60.0 for i in range(10)}
    arrivals = [update("fast-7", 0, [1.0, 0.0, 0.0]), update("slow-3", 8, [0.0, 1.0, 0.0])]
    tiers = Tiers()
    found = tiers.apply(arrivals, tiers.init(), among(clients)).delta["w"]
    assert found.tolist() == pytest.approx([0.9, 0.1, 0.0], rel=1e-15)


def test_an_update_is_in_the_tier_of_its_client_however_stale_it_is(update, among):
    """A slow client that happens to be fresh, and a fast one that happens to be late."""
    arrivals = [update("z", 0, [4.0, 0.0, 0.0]), update("a", 3, [0.0, 4.0, 8.0])]
    tiers = Tiers()
    found = tiers.apply(arrivals, tiers.init(), among(FAST3_SLOW1)).delta["w"]
    assert found.tolist() == [1.0, 3.0, 6.0]


def test_a_client_that_nobody_registered_counts_in_the_tier_of_its_staleness(update, among):
    arrivals = [update("a", 0, [4.0, 0.0, 0.0]), update("new", 3, [0.0, 4.0, 8.0])]
    tiers = Tiers()
    found = tiers.apply(arrivals, tiers.init(), among({"a": 0.0, "b": 0.0, "c": 0.0})).delta["w"]
    assert found.tolist() == [3.0, 1.0, 2.0]


def test_a_silent_tier_is_left_out_or_counted_as_zero(update, among):
    arrivals = [update("a", 0, [4.0, 8.0, 0.0])]
    for silent, wanted in (("left_out", [4.0, 8.0, 0.0]), ("counted", [3.0, 6.0, 0.0])):
        tiers = Tiers(silent=silent)
        found = tiers.apply(arrivals, tiers.init(), among(FAST3_SLOW1)).delta["w"]
        assert found.tolist() == wanted


def test_a_tier_without_clients_is_no_silent_one(update, among):
    tiers = Tiers(bounds=(0, 5, 9), silent="counted")
    found = tiers.apply([update("a", 0, [4.0, 8.0, 0.0])], tiers.init(), among({"a": 0.0}))
    assert found.delta["w"].tolist() == [4.0, 8.0, 0.0]


def test_reversed_weighing_gives_a_tier_the_rounds_of_its_opposite(update, among):
    view = among(FAST3_SLOW1)
    tiers = Tiers(weighing="reversed")
    state = tiers.init()
    for _ in range(2):  # the fast tier reports alone twice, then both: T = (3, 1)
        state = tiers.apply([update("a", 0, [0.0] * 3)], state, view).state
    both = [update("a", 0, [4.0, 0.0, 8.0]), update("z", 5, [0.0, 4.0, 0.0])]
    result = tiers.apply(both, state, view)
    # Fast gets T_slow = 1, slow gets T_fast = 3.
    assert result.delta["w"].tolist() == [1.0, 3.0, 2.0]
    assert result.state["rounds"] == [3, 1]


def test_reversed_weighing_works_before_the_opposite_tier_has_reported(update, among):
    tiers = Tiers(bounds=(0, 5), weighing="reversed")
    view = among({"a": 0.0, "z": 9.0})
    result = tiers.apply([update("a", 0, [4.0, 0.0, 8.0])], tiers.init(), view)
    assert result.delta["w"].tolist() == [4.0, 0.0, 8.0]


def test_no_arrivals_no_change(update, among):
    tiers = Tiers()
    assert tiers.apply([], tiers.init(), among(FAST3_SLOW1)).delta is None
    weightless = [update("a", 0, [1.0] * 3, 5, 0.0)]
    result = tiers.apply(weightless, tiers.init(), among(FAST3_SLOW1))
    assert result.delta is None
    assert result.state["rounds"] == [0, 0]


@pytest.mark.parametrize("silent", [True, False])
def test_an_engine_that_registers_nobody_is_told_so(update, view, silent):
    tiers = Tiers()
    arrivals = [] if silent else [update("a", 0, [1.0] * 3)]
    with pytest.raises(ConfigError, match=r"asyn_tiers: all clients should be registered.*none"):
        tiers.apply(arrivals, tiers.init(), view)


def test_the_state_is_passed_on_and_not_changed(update, among):
    tiers = Tiers()
    state = tiers.init()
    before = copy.deepcopy(state)
    tiers.apply([update("a", 0, [1.0] * 3)], state, among(FAST3_SLOW1))
    assert state == before


def test_a_list_of_bounds_is_as_good_as_a_tuple():
    assert Tiers(bounds=[0, 5]) == Tiers(bounds=(0, 5))


@pytest.mark.parametrize("bounds", [(), (3, 3), (5, 2), (-1,), (0.5,), (0, float("inf"))])
def test_refuses_bounds_that_are_not_rising_integers(bounds):
    with pytest.raises(ConfigError, match="bounds"):
        Tiers(bounds=bounds)


@pytest.mark.parametrize("setting", ["weighing", "silent"])
def test_refuses_an_unknown_rule(setting):
    with pytest.raises(ConfigError, match=setting):
        Tiers(**{setting: "examples"})
