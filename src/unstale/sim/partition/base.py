"""The partition protocol, checks that partitions share, and class counts of a split."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from unstale.errors import ConfigError

Indices = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Partition(Protocol):
    """Splits a data set over clients."""

    def split(self, labels: Indices, users: npt.NDArray[Any] | None, seed: int) -> list[Indices]:
        """Return the sorted sample indices of every client.

        Args:
            labels: The class of every sample, from 0.
            users: The user who recorded each sample, if the data set has users.
            seed: Seed of the draws.

        Raises:
            ConfigError: If the data cannot be split as the settings ask.
        """
        ...


def class_counts(labels: Indices) -> Indices:
    """Return the number of samples of every class.

    Raises:
        ConfigError: If the labels are not a vector of integers from 0.
    """
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


def check_count(name: str, value: int) -> None:
    """Raise ConfigError if a setting is below 1."""
    if value < 1:
        raise ConfigError(f"Setting '{name}' should be at least 1. Found {value}. Raise it.")


def check_enough(clients: int, samples: int, available: int, name: str = "samples") -> None:
    """Raise ConfigError if clients × samples is more than the available samples."""
    if clients * samples > available:
        most = available // clients
        hint = f" (to at most {most} for {clients} clients)" if most else ""
        raise ConfigError(
            f"The data should have clients × {name} = {clients} × {samples} = "
            f"{clients * samples} samples. Found {available} available. "
            f"Lower clients or {name}{hint}."
        )


def histogram(labels: Indices, indices: Sequence[Indices], num_classes: int) -> Indices:
    """Return the number of samples of every class on every client, as [clients, classes].

    Example:
        >>> histogram(np.array([0, 0, 1, 2]), [np.array([0, 1]), np.array([2, 3])], 3)
        array([[2, 0, 0],
               [0, 1, 1]])
    """
    return np.stack([np.bincount(labels[part], minlength=num_classes) for part in indices])


def holders(hist: Indices, klass: int, k: int) -> list[int]:
    """Return the k clients with the most samples of a class, most first (ties by index).

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
