import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unstale.errors import ConfigError
from unstale.sim.drift import KINDS, LookDrift, NoDrift, ResampleDrift, ShiftDrift
from unstale.sim.partition import DirichletLabels

LABELS = np.random.default_rng(0).integers(0, 5, 1000)
PARTS = DirichletLabels(clients=6, samples=40, alpha=0.5).split(LABELS, None, 0)


def test_every_kind_is_registered():
    assert dict(KINDS) == {
        "none": NoDrift,
        "resample": ResampleDrift,
        "shift": ShiftDrift,
        "look": LookDrift,
    }


def test_none_keeps_the_parts():
    plan = NoDrift().plan(PARTS, LABELS, 0)
    for client, part in enumerate(PARTS):
        assert (plan.indices(client, 0) == part).all()
        assert (plan.indices(client, 99) == part).all()


def test_resample_replaces_so_many_each_round_and_never_the_class():
    plan = ResampleDrift(per_round=3).plan(PARTS, LABELS, 0)
    for client, part in enumerate(PARTS):
        assert (plan.indices(client, 0) == part).all()
        for round in range(40):
            now, following = plan.indices(client, round), plan.indices(client, round + 1)
            assert (now != following).sum() == 3
            assert (LABELS[following] == LABELS[part]).all()
            assert len(np.unique(following)) == len(part)


def test_resample_draws_from_the_unassigned_first():
    plan = ResampleDrift(per_round=4).plan(PARTS, LABELS, 0)
    for client, part in enumerate(PARTS):
        mine = np.setdiff1d(plan.indices(client, 10), part)
        assert len(mine) == 40  # all replaced after ten rounds
        assert not np.isin(mine, np.concatenate(PARTS)).any()


def test_resample_does_not_depend_on_the_order_of_questions():
    drift = ResampleDrift(per_round=7)
    plan = drift.plan(PARTS, LABELS, 0)
    forwards = [plan.indices(2, round) for round in range(30)]
    late = drift.plan(PARTS, LABELS, 0)
    for round in (29, 3, 17, 0):
        assert (late.indices(np.int64(2), round) == forwards[round]).all()
    other = drift.plan(PARTS, LABELS, 1)
    assert (other.indices(2, 9) != forwards[9]).any()


@pytest.mark.parametrize("drift", [ResampleDrift, ShiftDrift])
def test_what_is_returned_can_be_changed_without_harm(drift):
    plan = drift(per_round=1).plan(PARTS, LABELS, 0)
    for round in (0, 5):
        before = plan.indices(0, round).copy()
        plan.indices(0, round)[:] = -1
        assert (plan.indices(0, round) == before).all()


@pytest.mark.parametrize("drift", [ResampleDrift, ShiftDrift])
def test_data_changes_between_start_and_stop(drift):
    plan = drift(per_round=2, start=5, stop=8).plan(PARTS, LABELS, 0)
    changed = [int((plan.indices(1, r) != PARTS[1]).sum()) for r in range(12)]
    assert changed == [0] * 6 + [2, 4] + [6] * 4


def test_a_class_without_unassigned_samples_is_drawn_from_all():
    labels = np.array([0] * 10 + [1] * 10)
    parts = [np.arange(0, 5), np.arange(5, 10)]  # class 0 is used up, class 1 unused
    plan = ResampleDrift(per_round=5).plan(parts, labels, 0)
    assert sorted(plan.indices(0, 1)) == [5, 6, 7, 8, 9]
    assert sorted(plan.indices(1, 1)) == [0, 1, 2, 3, 4]
    assert sorted(plan.indices(0, 2)) == [0, 1, 2, 3, 4]


def test_a_client_that_holds_all_of_a_class_keeps_it():
    plan = ResampleDrift(per_round=2).plan([np.arange(4)], np.zeros(4, dtype=np.int64), 0)
    assert all(sorted(plan.indices(0, round)) == [0, 1, 2, 3] for round in range(9))


@settings(max_examples=80, deadline=None)
@given(
    labels=st.lists(st.integers(0, 2), min_size=8, max_size=30),
    clients=st.integers(1, 4),
    samples=st.integers(1, 2),
    per_round=st.integers(0, 5),
    round=st.integers(0, 200),
    seed=st.integers(0, 999),
)
def test_size_classes_and_distinctness_always_hold(
    labels, clients, samples, per_round, round, seed
):
    labels = np.array(labels)
    parts = DirichletLabels(clients, samples, 0.5).split(labels, None, seed)
    plan = ResampleDrift(per_round).plan(parts, labels, seed)
    for client, part in enumerate(parts):
        held = plan.indices(client, round)
        assert held.dtype == np.int64
        assert (labels[held] == labels[part]).all()
        assert len(np.unique(held)) == len(part)


def test_shift_moves_so_many_samples_a_round_to_the_next_class():
    plan = ShiftDrift(per_round=3).plan(PARTS, LABELS, 0)
    for client in range(len(PARTS)):
        for round in range(30):
            now, following = plan.indices(client, round), plan.indices(client, round + 1)
            moved = now != following
            assert moved.sum() == 3
            assert (LABELS[following[moved]] == (LABELS[now[moved]] + 1) % 5).all()


def test_after_a_whole_circle_of_classes_a_client_has_its_own_again():
    plan = ShiftDrift(per_round=8).plan(PARTS, LABELS, 0)  # 40 samples: a class in five rounds
    for client, part in enumerate(PARTS):
        for lap in range(6):
            held = plan.indices(client, 5 * lap)
            assert (LABELS[held] == (LABELS[part] + lap) % 5).all()


def test_shift_takes_the_labels_in_their_order_whatever_their_numbers():
    labels = np.array([2, 7, 9] * 4)
    plan = ShiftDrift(per_round=2).plan([np.array([0, 2])], labels, 0)  # classes 2 and 9
    assert [labels[plan.indices(0, r)].tolist() for r in range(4)] == [
        [2, 9],
        [7, 2],
        [9, 7],
        [2, 9],
    ]


def test_shift_does_not_depend_on_the_order_of_questions():
    drift = ShiftDrift(per_round=7)
    plan = drift.plan(PARTS, LABELS, 0)
    forwards = [plan.indices(2, round) for round in range(30)]
    late = drift.plan(PARTS, LABELS, 0)
    for round in (29, 3, 17, 0):
        assert (late.indices(np.int64(2), round) == forwards[round]).all()
    assert (drift.plan(PARTS, LABELS, 1).indices(2, 9) != forwards[9]).any()


@pytest.mark.parametrize("drift", [ResampleDrift, ShiftDrift])
@pytest.mark.parametrize("bad", [{"per_round": -1}, {"start": -1}, {"start": 5, "stop": 4}])
def test_bad_settings_are_refused(drift, bad):
    with pytest.raises(ConfigError, match=r"should .* Found "):
        drift(**bad)
