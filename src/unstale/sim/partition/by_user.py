"""Natural partition: one client per user who recorded the data."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unstale.errors import ConfigError
from unstale.seeding import numpy_generator
from unstale.sim.partition.base import Indices, check_count, class_counts


@dataclass(frozen=True, slots=True)
class ByUser:
    """One client per user (person or device) who recorded the data, sorted by user id.

    For data sets with users, such as activity recognition. The seed matters only for users
    with more than `max_samples` samples.
    """

    min_samples: int = 1
    """Users with fewer samples are left out."""
    max_samples: int | None = None
    """Users with more samples keep this many, drawn at random; all if not given."""

    def __post_init__(self) -> None:
        check_count("min_samples", self.min_samples)
        if self.max_samples is not None and self.max_samples < self.min_samples:
            raise ConfigError(
                f"Setting 'max_samples' should be at least min_samples ({self.min_samples}). "
                f"Found {self.max_samples}. Raise it or leave it out."
            )

    def split(self, labels: Indices, users: npt.NDArray[Any] | None, seed: int) -> list[Indices]:
        """Return the sorted sample indices of every user with at least `min_samples` samples."""
        class_counts(labels)
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
