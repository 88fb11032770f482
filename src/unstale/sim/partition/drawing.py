"""Drawing class shares, and samples by class shares.

Shares are kept as unnormalised logarithms, so that very small ones do not become 0.
"""

import numpy as np

from unstale.sim.partition.base import Floats, Indices


class Unused:
    """The samples that no client holds yet, per class and in random order."""

    def __init__(self, labels: Indices, rng: np.random.Generator) -> None:
        classes = range(int(labels.max()) + 1)
        self._order = [rng.permutation(np.flatnonzero(labels == klass)) for klass in classes]
        self._left = np.array([len(members) for members in self._order])

    def take(self, klass: int, count: int) -> Indices:
        """Return `count` unused samples of one class; there must be as many."""
        end = int(self._left[klass])
        self._left[klass] -= count
        return self._order[klass][end - count : end].astype(np.int64)

    def draw(self, log_mix: Floats, count: int, rng: np.random.Generator) -> Indices:
        """Return `count` unused samples, drawn by the logarithms of class shares."""
        picked = [np.empty(0, dtype=np.int64)]
        while count:
            # In logarithms, because a class with a share of 1e-400 must still be drawn when all
            # other classes are used up.
            open_classes = np.flatnonzero(self._left)
            wanted = rng.multinomial(count, normalised(log_mix[open_classes]))
            given = np.minimum(wanted, self._left[open_classes])
            picked += [
                self.take(int(k), int(n)) for k, n in zip(open_classes, given, strict=True) if n
            ]
            count -= int(given.sum())
        return np.concatenate(picked)


def log_gamma(shape: Floats, rng: np.random.Generator) -> Floats:
    """Draw log Gamma(shape, 1), whose normalised exponentials are Dirichlet(shape).

    Uses Gamma(a) = Gamma(a+1)·U^(1/a): for a below about 0.1 a direct draw is often exactly 0
    in floating point, and normalising zeros gives NaN.
    """
    ones = np.log(rng.standard_gamma(shape + 1.0))
    return np.asarray(ones - rng.standard_exponential(shape.shape) / shape)


def normalised(logs: Floats) -> Floats:
    """Return the shares, which sum to 1, from unnormalised logarithms (a softmax)."""
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())
