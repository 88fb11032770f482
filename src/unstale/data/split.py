"""A fixed test part for data sets that are published without one."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.integer]


def stratified_test_mask(
    labels: Ints, order: Ints, num_test: int, users: Ints | None = None
) -> NDArray[np.bool_]:
    """Return a test mask that is stratified by class and, within a class, by user.

    Samples are sorted by class, then user, then `order`. A cell (class, user) at positions
    [a, b) contributes its last ``⌊b·k/n⌋ − ⌊a·k/n⌋`` samples, with k = `num_test` and n the
    number of samples. These numbers add up to exactly k and, since the cells of a class are
    adjacent, both cells and classes get their share to within one sample. Rounding each cell
    by itself would give a class of 12 samples of 10 users no test sample.

    Args:
        labels: The class of each sample.
        order: Sorts samples within a cell; the last ones are for testing. A random permutation
            for independent samples; the index for a time series, where neighbours overlap and
            a random choice would leak test data into training.
        num_test: Number of test samples.
        users: The user of each sample.

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
