"""Who holds which samples: the ways to split a data set over clients.

Every kind returns one array of sample indices per client. No sample goes to two
clients, no client is empty, and a seed gives the same split every time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from unstale.errors import ConfigError
from unstale.seeding import numpy_generator

Indices = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Partition(Protocol):
    """A way to split a data set over clients."""

    def split(self, labels: Indices, users: npt.NDArray[Any] | None, seed: int) -> list[Indices]:
        """Return the sorted sample indices of every client.

        Args:
            labels: The class of every sample, counted from 0.
            users: Who recorded every sample, where the data set knows.
            seed: Another seed gives another split.

        Raises:
            ConfigError: The data cannot be split as the settings ask.
        """
        ...


@dataclass(frozen=True, slots=True)
class DirichletLabels:
    """Every client draws its own class mix q ~ Dir(α·K·p) and then its samples by that mix.

    K is the number of classes and p the classes' shares of the data, so for balanced
    data q ~ Dir(α, …, α), and with growing α every client comes to look like the whole.
    Clients draw one after another, without replacement. A class with no unused samples
    left drops out of the mix of those who still draw, and the rest of the mix is scaled
    up to 1, so that all clients are of one size; with clients × samples near the size of
    the data the last clients therefore get what is left rather than what they drew.

    References:
        Hsu, Qi, Brown, *Measuring the Effects of Non-Identical Data Distribution for
        Federated Visual Classification*, 2019.
    """

    clients: int = 100
    """How many clients there are."""
    samples: int = 450
    """How many samples every client holds."""
    alpha: float = 0.1
    """Concentration α: near 0 almost one class a client, large the mix of the whole data."""

    def __post_init__(self) -> None:
        _check_count("clients", self.clients)
        _check_count("samples", self.samples)
        _check_alpha(self.alpha)

    def split(self, labels: Indices, users: npt.NDArray[Any] | None, seed: int) -> list[Indices]:
        """Return the sorted sample indices of every client.

        Example:
            >>> labels = np.arange(1000) % 10
            >>> parts = DirichletLabels(clients=20, samples=30).split(labels, None, seed=0)
            >>> len(parts), {len(part) for part in parts}
            (20, {30})
        """
        counts = _class_counts(labels)
        _check_enough(self.clients, self.samples, len(labels))
        rng = numpy_generator(seed, "partition", "dirichlet")
        unused = _Unused(labels, rng)
        held = np.flatnonzero(counts)
        concentration = self.alpha * len(held) * counts[held] / len(labels)
        parts = []
        for _ in range(self.clients):
            log_mix = np.full(len(counts), -np.inf)
            log_mix[held] = _log_gamma(concentration, rng)
            parts.append(np.sort(unused.draw(log_mix, self.samples, rng)))
        return parts


@dataclass(frozen=True, slots=True)
class DirichletClients:
    """Every class is cut over the clients in proportions drawn from Dir(α).

    All samples are handed out and client sizes differ. A client that ends up below
    `min_samples` is filled up with random samples, each from whichever client then
    holds most. (The usual way, to draw again until all are large enough, may never
    end for a small α.)

    References:
        Yurochkin et al., *Bayesian Nonparametric Federated Learning of Neural
        Networks*, 2019.
    """

    clients: int = 100
    """How many clients there are."""
    alpha: float = 0.1
    """Concentration α: near 0 a class sits on few clients, large it is spread evenly."""
    min_samples: int = 1
    """The fewest samples that a client may hold."""

    def __post_init__(self) -> None:
        _check_count("clients", self.clients)
        _check_count("min_samples", self.min_samples)
        _check_alpha(self.alpha)

    def split(self, labels: Indices, users: npt.NDArray[Any] | None, seed: int) -> list[Indices]:
        """Return the sorted sample indices of every client; together they are all samples."""
        counts = _class_counts(labels)
        _check_enough(self.clients, self.min_samples, len(labels), "min_samples")
        rng = numpy_generator(seed, "partition", "dirichlet_clients")
        owner = np.empty(len(labels), dtype=np.int64)
        for klass in np.flatnonzero(counts):
            members = rng.permutation(np.flatnonzero(labels == klass))
            shares = _normalised(_log_gamma(np.full(self.clients, self.alpha), rng))
            cuts = np.floor(np.cumsum(shares)[:-1] * len(members)).astype(np.int64)
            for client, chunk in enumerate(np.split(members, cuts)):
                owner[chunk] = client
        # In a random order, so that what a large client gives away is a fair sample of it.
        held = [rng.permutation(np.flatnonzero(owner == c)).tolist() for c in range(self.clients)]
        for client in range(self.clients):
            while len(held[client]) < self.min_samples:
                held[client].append(max(held, key=len).pop())
        return [np.sort(np.asarray(part, dtype=np.int64)) for part in held]


@dataclass(frozen=True, slots=True)
class OneClass:
    """Client i holds class i mod K, so every class has the same number of clients, ±1.

    With `mixed` above 0 it is *near* one class per client: that share of a client's
    samples is drawn from all classes, by their shares of the data, among the samples
    that nobody holds yet.
    """

    clients: int = 100
    """How many clients there are."""
    samples: int = 450
    """How many samples every client holds."""
    mixed: float = 0.0
    """The share of a client's samples that is drawn from all classes, from 0 to 1."""

    def __post_init__(self) -> None:
        _check_count("clients", self.clients)
        _check_count("samples", self.samples)
        if not 0 <= self.mixed <= 1:
            raise ConfigError(
                f"Setting 'mixed' should be a share from 0 to 1. Found {self.mixed}. "
                "Use 0 for one class per client, 0.1 for a tenth from all classes."
            )

    def split(self, labels: Indices, users: npt.NDArray[Any] | None, seed: int) -> list[Indices]:
        """Return the sorted sample indices of every client."""
        counts = _class_counts(labels)
        _check_enough(self.clients, self.samples, len(labels))
        mixed = round(self.mixed * self.samples)
        own = self.samples - mixed
        for klass, count in enumerate(counts):
            sharers = len(range(klass, self.clients, len(counts)))
            if own * sharers > count:
                raise ConfigError(
                    f"Class {klass} should have {sharers} × {own} = {own * sharers} samples, "
                    f"{own} for each of its {sharers} clients. Found {count}. "
                    "Lower clients or samples, or raise mixed."
                )
        rng = numpy_generator(seed, "partition", "one_class")
        unused = _Unused(labels, rng)
        # Own classes first: they have no other source, the mixed part has many.
        cores = [unused.take(client % len(counts), own) for client in range(self.clients)]
        log_mix = np.log(np.maximum(counts, 1) / len(labels))
        return [np.sort(np.append(core, unused.draw(log_mix, mixed, rng))) for core in cores]


@dataclass(frozen=True, slots=True)
class ByUser:
    """One client for every person (or device) that recorded the data, in order of their ids.

    For data such as activity recognition, where the split is in the data and not drawn.
    The seed matters only where `max_samples` cuts a user down.
    """

    min_samples: int = 1
    """Users with fewer samples are left out."""
    max_samples: int | None = None
    """Users with more samples keep this many, drawn by the seed; all when not set."""

    def __post_init__(self) -> None:
        _check_count("min_samples", self.min_samples)
        if self.max_samples is not None and self.max_samples < self.min_samples:
            raise ConfigError(
                f"Setting 'max_samples' should be at least min_samples ({self.min_samples}). "
                f"Found {self.max_samples}. Raise it or leave it out."
            )

    def split(self, labels: Indices, users: npt.NDArray[Any] | None, seed: int) -> list[Indices]:
        """Return the sorted sample indices of every user that has enough of them."""
        _class_counts(labels)
        if users is None:
            raise ConfigError(
                "Partition 'user' should get data that names a user for every sample. "
                "Found none in this data set. Choose another data set, or another partition "
                "such as 'dirichlet'."
            )
        if users.shape != labels.shape:
            raise ConfigError(
                f"Partition 'user' should get one user for each of the {len(labels)} samples. "
                f"Found users of shape {users.shape}. Check how the data set is read."
            )
        ids, member, sizes = np.unique(users, return_inverse=True, return_counts=True)
        kept = np.flatnonzero(sizes >= self.min_samples)
        if not len(kept):
            raise ConfigError(
                f"At least one user should have min_samples = {self.min_samples} samples. "
                f"Found {len(ids)} users with at most {sizes.max()}. Lower min_samples."
            )
        parts = []
        for user in kept:
            part = np.flatnonzero(member == user)
            if self.max_samples is not None and len(part) > self.max_samples:
                rng = numpy_generator(seed, "partition", "user", int(user))
                part = np.sort(rng.choice(part, self.max_samples, replace=False))
            parts.append(part.astype(np.int64))
        return parts


@dataclass(frozen=True, slots=True)
class Iid:
    """Every client holds a random part of the data: no heterogeneity at all."""

    clients: int = 100
    """How many clients there are."""
    samples: int | None = None
    """How many samples every client holds; when not set, all data is split evenly."""

    def __post_init__(self) -> None:
        _check_count("clients", self.clients)
        if self.samples is not None:
            _check_count("samples", self.samples)

    def split(self, labels: Indices, users: npt.NDArray[Any] | None, seed: int) -> list[Indices]:
        """Return the sorted sample indices of every client; sizes differ by one at most."""
        _class_counts(labels)
        _check_enough(self.clients, self.samples or 1, len(labels))
        order = numpy_generator(seed, "partition", "iid").permutation(len(labels))
        if self.samples is not None:
            order = order[: self.clients * self.samples]
        return [np.sort(part).astype(np.int64) for part in np.array_split(order, self.clients)]


KINDS: dict[str, type[Partition]] = {
    "dirichlet": DirichletLabels,
    "dirichlet_clients": DirichletClients,
    "one_class": OneClass,
    "user": ByUser,
    "iid": Iid,
}
"""The partitions by the name that an experiment file gives as `kind`."""


def histogram(labels: Indices, indices: Sequence[Indices], num_classes: int) -> Indices:
    """Count the samples of every class on every client, as [clients, classes].

    Example:
        >>> histogram(np.array([0, 0, 1, 2]), [np.array([0, 1]), np.array([2, 3])], 3)
        array([[2, 0, 0],
               [0, 1, 1]])
    """
    return np.stack([np.bincount(labels[part], minlength=num_classes) for part in indices])


def holders(hist: Indices, klass: int, k: int) -> list[int]:
    """Return the k clients with most samples of a class, most first, ties by client index.

    Example:
        >>> holders(np.array([[1, 0], [5, 2], [1, 9]]), klass=0, k=2)
        [1, 0]
    """
    clients, classes = hist.shape
    if not 0 <= klass < classes:
        raise ConfigError(
            f"A class should be a number from 0 to {classes - 1}. Found {klass}. "
            "Choose a class of this data set."
        )
    if not 0 <= k <= clients:
        raise ConfigError(
            f"The number of clients that hold most of class {klass} should be from 0 to "
            f"{clients}. Found {k}. Lower it, or raise the number of clients."
        )
    return [int(client) for client in np.argsort(-hist[:, klass], kind="stable")[:k]]


class _Unused:
    """The samples that nobody holds yet: per class, in a random order, each given out once."""

    def __init__(self, labels: Indices, rng: np.random.Generator) -> None:
        classes = range(int(labels.max()) + 1)
        self._order = [rng.permutation(np.flatnonzero(labels == klass)) for klass in classes]
        self._left = np.array([len(members) for members in self._order])

    def take(self, klass: int, count: int) -> Indices:
        end = int(self._left[klass])
        self._left[klass] -= count
        return self._order[klass][end - count : end].astype(np.int64)

    def draw(self, log_mix: Floats, count: int, rng: np.random.Generator) -> Indices:
        """Draw by a class mix given as logarithms; there must be `count` samples left."""
        picked = [np.empty(0, dtype=np.int64)]
        while count:
            # In logarithms, because a class that is 1e-400 of the mix still has to win
            # when all likelier ones are used up.
            open_classes = np.flatnonzero(self._left)
            wanted = rng.multinomial(count, _normalised(log_mix[open_classes]))
            given = np.minimum(wanted, self._left[open_classes])
            picked += [
                self.take(int(k), int(n)) for k, n in zip(open_classes, given, strict=True) if n
            ]
            count -= int(given.sum())
        return np.concatenate(picked)


def _log_gamma(shape: Floats, rng: np.random.Generator) -> Floats:
    """Draw log Gamma(shape, 1), whose normalised exponentials are Dirichlet(shape).

    Uses Gamma(a) = Gamma(a+1)·U^(1/a): for a below 0.1 or so a direct draw is often
    exactly 0 in floating point, and a mix of zeros only is NaN.
    """
    ones = np.log(rng.standard_gamma(shape + 1.0))
    return np.asarray(ones - rng.standard_exponential(shape.shape) / shape)


def _normalised(logs: Floats) -> Floats:
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _class_counts(labels: Indices) -> Indices:
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise ConfigError(
            "Labels should be one whole number for every sample. Found an array of "
            f"{labels.dtype} of shape {labels.shape}. Check how the data set is read."
        )
    if not len(labels) or labels.min() < 0:
        found = f"the label {labels.min()}" if len(labels) else "no samples"
        raise ConfigError(
            f"Labels should be at least one number, counted from 0. Found {found}. "
            "Check how the data set is read."
        )
    return np.bincount(labels)


def _check_count(name: str, value: int) -> None:
    if value < 1:
        raise ConfigError(f"Setting '{name}' should be at least 1. Found {value}. Raise it.")


def _check_alpha(alpha: float) -> None:
    # Beyond these bounds the draw is one class, or the global mix, to the last digit.
    if not (math.isfinite(alpha) and 1e-6 <= alpha <= 1e6):
        raise ConfigError(
            f"Setting 'alpha' should be a number from 1e-6 to 1e6. Found {alpha}. Use the "
            "partition 'one_class' for the lower extreme and 'iid' for the upper one."
        )


def _check_enough(clients: int, samples: int, available: int, name: str = "samples") -> None:
    if clients * samples > available:
        most = available // clients
        hint = f" (to at most {most} for {clients} clients)" if most else ""
        raise ConfigError(
            f"The data should have clients × {name} = {clients} × {samples} = "
            f"{clients * samples} samples. Found {available} available. "
            f"Lower clients or {name}{hint}."
        )
