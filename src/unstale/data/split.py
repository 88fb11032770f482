"""A fixed test part for data that is published without one."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.integer]


def stratified_test_mask(
    labels: Ints, order: Ints, num_test: int, users: Ints | None = None
) -> NDArray[np.bool_]:
    """Choose test samples so that every class, and every user within it, gives its share.

    Samples are laid in a row by class, then user, then `order`. The cell (class,
    user) that covers [a, b) of the row gives its last ``⌊b·k/n⌋ − ⌊a·k/n⌋``
    samples, with k = `num_test`. These differences add up to exactly k, and as
    cells of one class are neighbours, cells and classes both get their share to
    within one sample. Rounding each cell alone would give a class of 12 samples
    over 10 users none at all.

    Args:
        labels: The class of each sample.
        order: Sorts samples within a cell; the last ones are tested. A random
            permutation for independent samples, the index for a time series, where
            neighbours overlap and a random choice would show the test to training.
        num_test: How many to choose.
        users: Who each sample comes from.

    Returns:
        True for each sample of the test part.

    Example:
        >>> import numpy as np
        >>> labels = np.array([0, 0, 0, 0, 1, 1])
        >>> stratified_test_mask(labels, np.arange(6), 3).astype(int)
        array([0, 0, 1, 1, 0, 1])
    """
    users = np.zeros_like(labels) if users is None else users
    row = np.lexsort((order, users, labels))
    changes = (np.diff(labels[row]) != 0) | (np.diff(users[row]) != 0)
    edges = np.concatenate(([0], np.flatnonzero(changes) + 1, [len(row)])).tolist()
    chosen = np.zeros(len(row), dtype=np.bool_)
    for start, end in pairwise(edges):
        quota = end * num_test // len(row) - start * num_test // len(row)
        chosen[row[end - quota : end]] = True
    return chosen
