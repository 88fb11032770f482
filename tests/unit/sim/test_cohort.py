import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.errors import ConfigError
from unstale.sim.cohort import KINDS, SampledCohort, WholeCohort

pools = st.sets(st.integers(0, 60)).flatmap(
    lambda ids: st.tuples(st.permutations(sorted(ids)), st.integers(0, len(ids)))
)


def test_every_kind_is_registered():
    assert dict(KINDS) == {"all": WholeCohort, "sample": SampledCohort}


def test_all_asks_everyone():
    assert WholeCohort().draw(3, [4, 1], [2], seed=0) == [1, 2, 4]


@given(pools, st.integers(0, 20), st.integers(1, 20), st.integers(0, 99), st.integers(0, 99))
def test_stratified_takes_so_many_of_each(pool, fast_size, slow_size, round, seed):
    ids, cut = pool
    fast, slow = ids[:cut], ids[cut:]
    asked = SampledCohort(fast=fast_size, slow=slow_size).draw(round, fast, slow, seed)
    assert asked == sorted(set(asked))
    assert len(set(asked) & set(fast)) == min(fast_size, len(fast))
    assert len(set(asked) & set(slow)) == min(slow_size, len(slow))
    assert len(asked) == min(fast_size, len(fast)) + min(slow_size, len(slow))


@given(pools, st.integers(1, 20), st.integers(0, 99), st.integers(0, 99))
def test_joint_ignores_which_pool_and_which_order(pool, size, round, seed):
    ids, cut = pool
    cohort = SampledCohort(size=size)
    asked = cohort.draw(round, ids[:cut], ids[cut:], seed)
    assert len(asked) == min(size, len(ids))
    assert set(asked) <= set(ids)
    assert asked == cohort.draw(round, [], sorted(ids, reverse=True), seed)


def test_rounds_and_seeds_differ_and_numpy_numbers_do_not():
    cohort = SampledCohort(size=10)
    first = cohort.draw(0, range(100), [], seed=0)
    assert first != cohort.draw(1, range(100), [], seed=0)
    assert first != cohort.draw(0, range(100), [], seed=1)
    assert first == cohort.draw(np.int64(0), np.arange(100), [], seed=0)


def test_every_client_is_asked_equally_often():
    cohort = SampledCohort(fast=2, slow=1)
    asked = [c for round in range(3000) for c in cohort.draw(round, range(5), range(5, 8), 0)]
    shares = np.bincount(asked, minlength=8) / 3000
    assert np.abs(shares[:5] - 2 / 5).max() < 0.04
    assert np.abs(shares[5:] - 1 / 3).max() < 0.04


def test_an_absent_client_is_replaced_and_the_others_stay():
    cohort = SampledCohort(size=10)
    for round in range(20):
        first = cohort.draw(round, range(100), [], seed=0)
        rest = [client for client in range(100) if client != first[0]]
        second = cohort.draw(round, rest, [], seed=0)
        assert set(first) - set(second) == {first[0]}
        assert len(second) == 10


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"fast": 3},
        {"slow": 3},
        {"size": 3, "fast": 3},
        {"size": 3, "fast": 3, "slow": 1},
        {"size": 0},
        {"size": -1},
        {"fast": 0, "slow": 0},
        {"fast": 5, "slow": -1},
    ],
)
def test_exactly_one_form_must_be_given(bad):
    with pytest.raises(ConfigError, match=r"should .* Found "):
        SampledCohort(**bad)


def test_none_of_the_slow_is_allowed():
    assert SampledCohort(fast=2, slow=0).draw(0, [1, 2], [3], seed=0) == [1, 2]
