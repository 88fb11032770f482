"""Dirichlet partitions: class shares per client, or client shares per class."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unstale.errors import ConfigError
from unstale.seeding import numpy_generator
from unstale.sim.partition.base import Indices, check_count, check_enough, class_counts
from unstale.sim.partition.drawing import Unused, log_gamma, normalised


@dataclass(frozen=True, slots=True)
class DirichletLabels:
    """Every client draws class shares q ~ Dir(α·K·p), and then its samples by those shares.

    K is the number of classes and p their shares of the whole data, so q ~ Dir(α, …, α) for
    balanced data, and q approaches p as α grows. All clients have the same number of samples.
    They draw one after the other without replacement. Once the samples of a class are used
    up, the other shares are scaled up to sum to 1. If clients × samples is close to the size
    of the data, the last clients therefore get what is left instead of what they drew.

    References:
        Hsu, Qi, Brown, *Measuring the Effects of Non-Identical Data Distribution for
        Federated Visual Classification*, 2019.
    """

    clients: int = 100
    """Number of clients."""
    samples: int = 450
    """Number of samples per client."""
    alpha: float = 0.1
    """Concentration α: near 0 a client has almost one class; a large α gives every client the
    class shares of the whole data."""

    def __post_init__(self) -> None:
        check_count("clients", self.clients)
        check_count("samples", self.samples)
        _check_alpha(self.alpha)

    def split(self, labels: Indices, users: npt.NDArray[Any] | None, seed: int) -> list[Indices]:
        """Return the sorted sample indices of every client.

        Example:
            >>> labels = np.arange(1000) % 10
            >>> parts = DirichletLabels(clients=20, samples=30).split(labels, None, seed=0)
            >>> len(parts), {len(part) for part in parts}
            (20, {30})
        """
        counts = class_counts(labels)
        check_enough(self.clients, self.samples, len(labels))
        rng = numpy_generator(seed, "partition", "dirichlet")
        unused = Unused(labels, rng)
        held = np.flatnonzero(counts)
        concentration = self.alpha * len(held) * counts[held] / len(labels)
        parts = []
        for _ in range(self.clients):
            log_mix = np.full(len(counts), -np.inf)
            log_mix[held] = log_gamma(concentration, rng)
            parts.append(np.sort(unused.draw(log_mix, self.samples, rng)))
        return parts


@dataclass(frozen=True, slots=True)
class DirichletClients:
    """Every class is split over the clients in proportions drawn from Dir(α).

    All samples are used and clients differ in size. A client below `min_samples` gets random
    samples, each from the client that holds most at that point. (The common alternative,
    drawing again until all clients are large enough, may never end for a small α.)

    References:
        Yurochkin et al., *Bayesian Nonparametric Federated Learning of Neural
        Networks*, 2019.
    """

    clients: int = 100
    """Number of clients."""
    alpha: float = 0.1
    """Concentration α: near 0 a class is on few clients; a large α spreads it evenly."""
    min_samples: int = 1
    """Minimum number of samples per client."""

    def __post_init__(self) -> None:
        check_count("clients", self.clients)
        check_count("min_samples", self.min_samples)
        _check_alpha(self.alpha)

    def split(self, labels: Indices, users: npt.NDArray[Any] | None, seed: int) -> list[Indices]:
        """Return the sorted sample indices of every client; together they are all samples."""
        counts = class_counts(labels)
        check_enough(self.clients, self.min_samples, len(labels), "min_samples")
        rng = numpy_generator(seed, "partition", "dirichlet_clients")
        owner = np.empty(len(labels), dtype=np.int64)
        for klass in np.flatnonzero(counts):
            members = rng.permutation(np.flatnonzero(labels == klass))
            shares = normalised(log_gamma(np.full(self.clients, self.alpha), rng))
            cuts = np.floor(np.cumsum(shares)[:-1] * len(members)).astype(np.int64)
            for client, chunk in enumerate(np.split(members, cuts)):
                owner[chunk] = client
        # In a random order, so that a large client gives away a random subset.
        held = [rng.permutation(np.flatnonzero(owner == c)).tolist() for c in range(self.clients)]
        for client in range(self.clients):
            while len(held[client]) < self.min_samples:
                held[client].append(max(held, key=len).pop())
        return [np.sort(np.asarray(part, dtype=np.int64)) for part in held]


def _check_alpha(alpha: float) -> None:
    # Beyond these bounds a draw is one class, or the global shares, to the last digit.
    if not (math.isfinite(alpha) and 1e-6 <= alpha <= 1e6):
        raise ConfigError(
            f"Setting 'alpha' should be a number from 1e-6 to 1e6. Found {alpha}. Use the "
            "partition 'one_class' for the lower extreme and 'iid' for the upper one."
        )
