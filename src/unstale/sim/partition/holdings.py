"""How much clients hold of each class, once the data is split."""

from collections.abc import Sequence

import numpy as np

from unstale.errors import ConfigError
from unstale.sim.partition.base import Indices


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
