"""What a partition is, and the checks that all kinds share."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from unstale.errors import ConfigError

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


def class_counts(labels: Indices) -> Indices:
    """Count the samples of every class, and refuse labels that are none.

    Raises:
        ConfigError: The labels are not one whole number from 0 for every sample.
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
    """Refuse a setting that counts something and is below 1."""
    if value < 1:
        raise ConfigError(f"Setting '{name}' should be at least 1. Found {value}. Raise it.")


def check_enough(clients: int, samples: int, available: int, name: str = "samples") -> None:
    """Refuse to hand out more samples than there are."""
    if clients * samples > available:
        most = available // clients
        hint = f" (to at most {most} for {clients} clients)" if most else ""
        raise ConfigError(
            f"The data should have clients × {name} = {clients} × {samples} = "
            f"{clients * samples} samples. Found {available} available. "
            f"Lower clients or {name}{hint}."
        )
