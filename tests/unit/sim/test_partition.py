"""What every partition promises: each sample once, the sizes asked for, or a refusal."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unstale.errors import ConfigError
from unstale.sim.partition import (
    KINDS,
    ByUser,
    DirichletClients,
    DirichletLabels,
    Iid,
    OneClass,
)

LABELS = np.arange(2000) % 10
USERS = np.arange(2000) // 37
ALL = [
    DirichletLabels(clients=20, samples=50),
    DirichletLabels(clients=20, samples=100, alpha=0.01),
    DirichletClients(clients=20, alpha=0.1),
    OneClass(clients=20, samples=50, mixed=0.2),
    ByUser(max_samples=30),
    Iid(clients=20),
    Iid(clients=20, samples=7),
]


def check_disjoint(parts, total):
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together)
    assert together.min() >= 0
    assert together.max() < total
    assert all(len(part) for part in parts)
    assert all(part.dtype == np.int64 for part in parts)


def same(first, second):
    return len(first) == len(second) and all(map(np.array_equal, first, second))


@pytest.mark.parametrize("partition", ALL, ids=str)
def test_splits_are_disjoint_sorted_and_follow_the_seed(partition):
    first, again, other = (partition.split(LABELS, USERS, seed) for seed in (3, 3, 4))
    check_disjoint(first, len(LABELS))
    assert all((np.diff(part) > 0).all() for part in first)
    assert same(first, again)
    assert not same(first, other)


def test_every_kind_is_registered_and_splits_from_its_defaults():
    assert set(KINDS) == {"dirichlet", "dirichlet_clients", "one_class", "user", "iid", "csv"}
    labels = np.arange(60_000) % 10
    for name, kind in KINDS.items():
        assert dataclasses.is_dataclass(kind)
        if name == "csv":  # needs a file: test_partition_file.py
            continue
        check_disjoint(kind().split(labels, labels, 0), len(labels))


@settings(max_examples=60, deadline=None)
@given(
    labels=st.lists(st.integers(0, 4), min_size=20, max_size=60),
    clients=st.integers(1, 10),
    samples=st.integers(1, 2),
    alpha=st.sampled_from([1e-6, 0.01, 0.5, 1e6]),
    seed=st.integers(0, 2**31),
)
def test_dirichlet_labels_gives_every_client_its_size(labels, clients, samples, alpha, seed):
    # also with missing classes, and when (nearly) all samples are handed out
    labels = np.array(labels)
    parts = DirichletLabels(clients, samples, alpha).split(labels, None, seed)
    check_disjoint(parts, len(labels))
    assert [len(part) for part in parts] == [samples] * clients


@settings(max_examples=60, deadline=None)
@given(
    labels=st.lists(st.integers(0, 4), min_size=20, max_size=60),
    clients=st.integers(1, 10),
    least=st.integers(1, 2),
    alpha=st.sampled_from([1e-6, 0.01, 0.5, 1e6]),
    seed=st.integers(0, 2**31),
)
def test_dirichlet_clients_hands_out_everything(labels, clients, least, alpha, seed):
    labels = np.array(labels)
    parts = DirichletClients(clients, alpha, least).split(labels, None, seed)
    check_disjoint(parts, len(labels))
    assert len(parts) == clients
    assert sum(map(len, parts)) == len(labels)
    assert min(map(len, parts)) >= least


@pytest.mark.parametrize(
    "make",
    [
        lambda: DirichletLabels(clients=0),
        lambda: DirichletLabels(samples=0),
        lambda: DirichletLabels(alpha=0.0),
        lambda: DirichletLabels(alpha=float("nan")),
        lambda: DirichletLabels(alpha=float("inf")),
        lambda: DirichletClients(alpha=-1.0),
        lambda: DirichletClients(clients=0),
        lambda: DirichletClients(min_samples=0),
        lambda: OneClass(mixed=1.1),
        lambda: OneClass(mixed=float("nan")),
        lambda: OneClass(samples=0),
        lambda: ByUser(min_samples=0),
        lambda: ByUser(min_samples=3, max_samples=2),
        lambda: Iid(clients=0),
        lambda: Iid(samples=0),
    ],
)
def test_bad_settings_are_refused(make):
    with pytest.raises(ConfigError, match=r"should .* Found "):
        make()


@pytest.mark.parametrize(
    ("partition", "says"),
    [
        (DirichletLabels(100, 21), r"100 × 21 = 2100 samples\. Found 2000 .*at most 20"),
        (DirichletClients(2001), r"Found 2000 available"),
        (DirichletClients(10, 0.1, 201), r"min_samples = 10 × 201"),
        (OneClass(11, 101), r"Class 0 should have 2 × 101 = 202 .* Found 200"),
        (OneClass(100, 30), r"= 3000 samples\. Found 2000"),
        (ByUser(), r"names a user .* Found none"),
        (Iid(2001), r"Found 2000 available"),
        (Iid(100, 21), r"Found 2000 available"),
    ],
    ids=str,
)
def test_data_that_cannot_be_split_is_refused_with_numbers(partition, says):
    with pytest.raises(ConfigError, match=says):
        partition.split(LABELS, None, 0)


def test_by_user_refuses_users_that_do_not_fit():
    with pytest.raises(ConfigError, match="one user for each of the 2000"):
        ByUser().split(LABELS, USERS[:-1], 0)
    with pytest.raises(ConfigError, match="at most 37"):
        ByUser(min_samples=38).split(LABELS, USERS, 0)


@pytest.mark.parametrize(
    "labels", [np.array([], dtype=int), np.array([0, -1]), np.zeros((2, 2), int)]
)
def test_labels_that_are_none_are_refused(labels):
    with pytest.raises(ConfigError, match="Labels should"):
        Iid(clients=1).split(labels, None, 0)
