"""Who is asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.flower.cohort import Cohort, draw


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
