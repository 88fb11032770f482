"""Who is drawn, and who of them is asked."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.flower.cohort import Cohort, Drawn, draw, nodes_to_train


@given(st.sets(st.integers(0, 2**64 - 1), max_size=30), st.integers(1, 40), st.integers(0, 2**32))
def test_a_draw_is_of_the_nodes_and_of_the_size(nodes, size, seed):
    drawn = draw(list(nodes), size, seed, "train", 3)
    assert len(drawn) == len(set(drawn)) == min(size, len(nodes))
    assert set(drawn) <= nodes
    assert all(type(node) is int for node in drawn)
    assert drawn == draw(sorted(nodes, reverse=True), size, seed, "train", 3)


def test_draws_differ_by_version_and_purpose():
    nodes = list(range(100))
    first = draw(nodes, 10, 0, "train", 3)
    assert first != draw(nodes, 10, 0, "train", 4)
    assert first != draw(nodes, 10, 0, "evaluate", 3)


@pytest.mark.parametrize(("connected", "asked"), [(0, 2), (3, 2), (10, 5), (11, 5)])
def test_sizes_are_those_of_fedavg(connected, asked):
    assert Cohort(fraction_train=0.5).size_of_training(connected) == asked
    assert Cohort(fraction_evaluate=0.5).size_of_evaluation(connected) == asked


def drawn_in(
    connected, *, busy=(), left=(), slow=(), occupied=(), before=(), version=3, **settings
):
    """Draw a round's cohort of such nodes.

    Args:
        connected: The nodes that are connected.
        busy: The nodes that work.
        left: The clients that the method would stand in for.
        slow: The nodes that rounds do not wait for.
        occupied: The nodes whose update lies here until its round comes.
        before: The nodes that have answered in this round to a process that died.
    """
    grid = SimpleNamespace(
        wait_for_nodes=lambda count: [*connected],
        idle_nodes=lambda: [node for node in connected if node not in busy],
        busy_nodes=lambda: {*busy},
        is_fast=lambda node: node not in slow,
        book=SimpleNamespace(asked=lambda: {*before}, occupied=lambda _: {*occupied, *before}),
    )
    server = SimpleNamespace(
        seed=0, version=version, stands_in_for=lambda: frozenset(map(str, left))
    )
    return nodes_to_train(Cohort(**{"min_train_nodes": 1, **settings}), grid, server, version + 1)


MANY = range(100, 130)


@given(st.sets(st.sampled_from(MANY)), st.integers(0, 50))
def test_the_cohort_is_the_same_whoever_is_busy(busy, version):
    everybody = drawn_in(MANY, fraction_train=0.4, version=version)
    assert len(everybody.asked) == 12
    assert everybody.absent == []
    found = drawn_in(MANY, busy=busy, fraction_train=0.4, version=version)
    assert found.absent == sorted({*everybody.asked} & busy)
    if {*everybody.asked} - busy:  # otherwise somebody else is asked
        assert found.asked == sorted({*everybody.asked} - busy)


def test_who_has_left_is_drawn_if_the_method_would_stand_in_for_it():
    assert drawn_in([3, 4], left=[4, 5]) == Drawn([3, 4], [5])
    assert drawn_in([3, 4], busy=[4, 6]) == Drawn([3], [4, 6])
    shares = [
        len(drawn_in(range(10), left=range(10, 20), fraction_train=0.5, version=v).absent)
        for v in range(200)
    ]
    assert 4.5 < sum(shares) / len(shares) < 5.5, "half of those that have left"


@given(st.sets(st.sampled_from(MANY)), st.integers(1, 20), st.integers(0, 50))
def test_as_many_are_asked_as_promised_if_so_many_are_idle(busy, least, version):
    found = drawn_in(MANY, busy=busy, fraction_train=0.1, min_train_nodes=least, version=version)
    assert len(found.asked) >= min(least, len(MANY) - len(busy))
    assert not {*found.asked} & busy
    assert {*found.absent} <= busy


@given(st.sets(st.sampled_from(MANY)), st.sets(st.sampled_from(MANY)), st.integers(0, 50))
def test_a_round_does_not_depend_on_slow_nodes_while_a_fast_one_is_idle(busy, slow, version):
    found = drawn_in(MANY, busy=busy, slow=slow, fraction_train=0.1, version=version)
    fast = {*MANY} - busy - slow
    assert bool({*found.asked} & fast) == bool(fast)


@given(
    st.sets(st.sampled_from(MANY)),
    st.sets(st.sampled_from(MANY)),
    st.integers(1, 8),
    st.integers(0, 50),
    st.randoms(use_true_random=False),
)
def test_a_resumed_round_has_the_cohort_that_it_had(busy, slow, least, version, rng):
    settings = {"fraction_train": 0.2, "min_train_nodes": least, "slow": slow, "version": version}
    whole = drawn_in(MANY, busy=busy, **settings)
    before = {node for node in whole.asked if rng.random() < 0.5}
    # The answers of busy nodes lie here now. Some of `before` still work, if no process died.
    still = {node for node in before if rng.random() < 0.5}
    again = drawn_in(MANY, busy=still, occupied=busy, before=before, **settings)
    assert again.absent == whole.absent
    assert again.asked == sorted({*whole.asked} - before)
