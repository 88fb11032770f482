"""IID partition: every client holds a random part of the data."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unstale.seeding import numpy_generator
from unstale.sim.partition.base import Indices, check_count, check_enough, class_counts


@dataclass(frozen=True, slots=True)
class Iid:
    """Every client holds a random part of the data."""

    clients: int = 100
    """Number of clients."""
    samples: int | None = None
    """Number of samples per client; if not given, all data is split evenly."""

    def __post_init__(self) -> None:
        check_count("clients", self.clients)
        if self.samples is not None:
            check_count("samples", self.samples)

    def split(self, labels: Indices, users: npt.NDArray[Any] | None, seed: int) -> list[Indices]:
        """Return the sorted sample indices of every client; sizes differ by at most one."""
        class_counts(labels)
        check_enough(self.clients, self.samples or 1, len(labels))
        order = numpy_generator(seed, "partition", "iid").permutation(len(labels))
        if self.samples is not None:
            order = order[: self.clients * self.samples]
        return [np.sort(part).astype(np.int64) for part in np.array_split(order, self.clients)]
