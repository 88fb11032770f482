"""Who gets what: the class mixes and sizes that each partition gives, and how they are counted."""

import numpy as np
import pytest

from unstale.errors import ConfigError
from unstale.sim.partition import (
    ByUser,
    DirichletClients,
    DirichletLabels,
    Iid,
    OneClass,
    histogram,
    holders,
)

LABELS = np.arange(2000) % 10


def test_dirichlet_labels_uses_up_the_data_exactly():
    parts = DirichletLabels(clients=40, samples=50, alpha=0.01).split(LABELS, None, 0)
    assert sorted(np.concatenate(parts)) == list(range(2000))


def test_dirichlet_labels_with_a_large_alpha_is_the_global_mix_even_when_unbalanced():
    labels = np.repeat([0, 1, 2], [7000, 2000, 1000])
    parts = DirichletLabels(clients=10, samples=500, alpha=1e6).split(labels, None, 0)
    mix = histogram(labels, parts, 3) / 500
    assert np.abs(mix - [0.7, 0.2, 0.1]).max() < 0.08


def test_dirichlet_labels_with_a_small_alpha_is_near_one_class():
    labels = np.arange(60_000) % 10
    hist = histogram(labels, DirichletLabels(100, 100, 0.01).split(labels, None, 0), 10)
    assert np.median(hist.max(axis=1)) >= 99
    assert len(set(hist.argmax(axis=1))) == 10  # and not the same class for all


def test_dirichlet_labels_mixes_have_the_moments_of_the_dirichlet_distribution():
    # balanced data: q ~ Dir(α, …, α), so E[Σ q²] = (α + 1) / (αK + 1)
    labels = np.arange(60_000) % 10
    for alpha in (0.1, 1.0):
        parts = DirichletLabels(200, 200, alpha).split(labels, None, 0)
        mix = histogram(labels, parts, 10) / 200
        expected = (alpha + 1) / (alpha * 10 + 1)
        assert (mix**2).sum(axis=1).mean() == pytest.approx(expected, rel=0.1)


def test_dirichlet_clients_statistics():
    labels = np.arange(20_000) % 10
    even = histogram(labels, DirichletClients(10, 1e6).split(labels, None, 0), 10)
    assert np.abs(even - 200).max() <= 2
    skewed = histogram(labels, DirichletClients(10, 0.01).split(labels, None, 0), 10)
    assert np.median(skewed.max(axis=0)) > 0.9 * 2000  # a class sits on one client


def test_one_class_is_pure_and_balanced():
    labels = np.random.default_rng(0).permutation(LABELS)
    parts = OneClass(clients=25, samples=40).split(labels, None, 0)
    for client, part in enumerate(parts):
        assert set(labels[part]) == {client % 10}
        assert len(part) == 40


def test_one_class_mixed_draws_a_share_from_all_classes():
    labels = np.arange(60_000) % 10
    parts = OneClass(clients=50, samples=200, mixed=0.25).split(labels, None, 0)
    hist = histogram(labels, parts, 10)
    assert (hist.sum(axis=1) == 200).all()
    own = hist[np.arange(50), np.arange(50) % 10]
    assert (own >= 150).all()
    assert own.mean() == pytest.approx(150 + 5, abs=1.5)


def test_one_class_mixed_takes_what_is_left_when_a_class_runs_out():
    parts = OneClass(clients=40, samples=50, mixed=0.5).split(LABELS, None, 0)
    assert sorted(np.concatenate(parts)) == list(range(2000))


def test_by_user_is_one_client_per_user():
    users = np.array(["b", "a", "b", "c", "a", "b"])
    parts = ByUser().split(np.zeros(6, dtype=np.int64), users, 0)
    assert [part.tolist() for part in parts] == [[1, 4], [0, 2, 5], [3]]


def test_by_user_bounds():
    labels, users = np.zeros(6, dtype=np.int64), np.array([4, 1, 4, 9, 1, 4])
    parts = ByUser(min_samples=2, max_samples=2).split(labels, users, 0)
    assert parts[0].tolist() == [1, 4]
    assert len(parts) == 2
    assert set(parts[1]) < {0, 2, 5}
    assert len(parts[1]) == 2


def test_iid_sizes_and_mix():
    labels = np.arange(10_003) % 10
    parts = Iid(clients=10).split(labels, None, 0)
    assert sorted(map(len, parts)) == [1000] * 7 + [1001] * 3
    assert np.abs(histogram(labels, parts, 10) - 100).max() < 40
    assert {len(part) for part in Iid(10, samples=3).split(labels, None, 0)} == {3}


def test_holders_are_sorted_by_count_then_index():
    hist = np.array([[3, 0], [5, 1], [3, 9], [0, 9]])
    assert holders(hist, 0, 3) == [1, 0, 2]
    assert holders(hist, 1, 2) == [2, 3]
    assert holders(hist, 1, 0) == []


def test_histogram_counts_absent_classes_as_zero():
    parts = [np.array([0, 2]), np.array([1])]
    assert histogram(np.array([1, 1, 0]), parts, 4).tolist() == [[1, 1, 0, 0], [0, 1, 0, 0]]


@pytest.mark.parametrize(("klass", "k"), [(2, 1), (-1, 1), (0, 5), (0, -1)])
def test_holders_refuses_what_is_not_there(klass, k):
    with pytest.raises(ConfigError, match="should be"):
        holders(np.ones((4, 2), dtype=np.int64), klass, k)
