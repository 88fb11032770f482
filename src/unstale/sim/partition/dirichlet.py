"""Class mixes from the Dirichlet distribution: of every client, or of every class."""

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
        # In a random order, so that what a large client gives away is a fair sample of it.
        held = [rng.permutation(np.flatnonzero(owner == c)).tolist() for c in range(self.clients)]
        for client in range(self.clients):
            while len(held[client]) < self.min_samples:
                held[client].append(max(held, key=len).pop())
        return [np.sort(np.asarray(part, dtype=np.int64)) for part in held]


def _check_alpha(alpha: float) -> None:
    # Beyond these bounds the draw is one class, or the global mix, to the last digit.
    if not (math.isfinite(alpha) and 1e-6 <= alpha <= 1e6):
        raise ConfigError(
            f"Setting 'alpha' should be a number from 1e-6 to 1e6. Found {alpha}. Use the "
            "partition 'one_class' for the lower extreme and 'iid' for the upper one."
        )
