"""The test set of the drift `look`: one look, or both as clients hold them."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from unstale.errors import ConfigError
from unstale.seeding import numpy_generator
from unstale.sim.partition import Indices


@dataclass(frozen=True, slots=True, eq=False)
class LookTestSet:
    """Chooses test samples by look.

    With `which = "clients"` every class has as many samples in each round as in the old look's
    test part. Old ones leave and new ones come in a fixed random order, which no seed of a run
    changes, so two rounds with nearly the same shares are tested on nearly the same samples.
    """

    which: str
    """`clients`, `old` or `new`; see `LookDrift.test`."""
    labels: Indices
    """The class of every test sample, those of the old look first."""
    old: int
    """Number of test samples of the old look."""
    _orders: dict[int, tuple[Indices, Indices]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.which != "clients":
            return
        for klass in np.unique(self.labels[: self.old]).tolist():
            rng = numpy_generator(0, "drift", "look", "test", klass)
            mine = np.flatnonzero(self.labels == klass)
            old, new = mine[mine < self.old], mine[mine >= self.old]
            if len(new) < len(old):
                raise ConfigError(
                    f"The test part of the new look should have at least as many samples of every "
                    f"class as the old one's. Found {len(new)} and {len(old)} of class {klass}. "
                    'Choose test = "old" or "new".'
                )
            self._orders[klass] = rng.permutation(old), rng.permutation(new)

    def indices(self, shares: NDArray[np.float64]) -> Indices:
        """Return the indices of the test samples, in ascending order.

        Args:
            shares: The share of each class that should have the new look.
        """
        if self.which == "old":
            return np.arange(self.old)
        if self.which == "new":
            return np.arange(self.old, len(self.labels))
        chosen = []
        for klass, (old, new) in self._orders.items():
            count = int(shares[klass] * len(old) + 0.5)
            chosen += [old[count:], new[:count]]
        return np.sort(np.concatenate(chosen))
