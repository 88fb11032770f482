"""One class per client, optionally with a share of all classes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unstale.errors import ConfigError
from unstale.seeding import numpy_generator
from unstale.sim.partition.base import Indices, check_count, check_enough, class_counts
from unstale.sim.partition.drawing import Unused


@dataclass(frozen=True, slots=True)
class OneClass:
    """Client i holds class i mod K, so the numbers of clients per class differ by at most one.

    With `mixed` above 0, that share of a client's samples is drawn from the unused samples
    of all classes instead, in proportion to the classes' shares of the data.
    """

    clients: int = 100
    """Number of clients."""
    samples: int = 450
    """Number of samples per client."""
    mixed: float = 0.0
    """The share of a client's samples that is drawn from all classes, from 0 to 1."""

    def __post_init__(self) -> None:
        check_count("clients", self.clients)
        check_count("samples", self.samples)
        if not 0 <= self.mixed <= 1:
            raise ConfigError(
                f"Setting 'mixed' should be a share from 0 to 1. Found {self.mixed}. "
                "Use 0 for one class per client, 0.1 for a tenth from all classes."
            )

    def split(self, labels: Indices, users: npt.NDArray[Any] | None, seed: int) -> list[Indices]:
        """Return the sorted sample indices of every client."""
        counts = class_counts(labels)
        check_enough(self.clients, self.samples, len(labels))
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
        unused = Unused(labels, rng)
        # Own classes first: the mixed part can use samples of any class.
        cores = [unused.take(client % len(counts), own) for client in range(self.clients)]
        log_mix = np.log(np.maximum(counts, 1) / len(labels))
        return [np.sort(np.append(core, unused.draw(log_mix, mixed, rng))) for core in cores]
