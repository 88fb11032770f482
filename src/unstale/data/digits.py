"""`digits`: scikit-learn's 1,797 handwritten digits of 8×8, embedded: no file, no network."""

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from unstale.data.dataset import Dataset, int_labels
from unstale.data.source import Files, Layout, Source
from unstale.data.split import stratified_test_mask
from unstale.seeding import numpy_generator

NUM_TEST = 500


def read_digits(files: Files) -> Dataset:
    """Return the digits as [1, 8, 8] in [0, 1]: 1,297 to train, 500 to test.

    The published values are 0..16. There is no published split for this part of the UCI
    data, so a stratified one is drawn with a fixed seed; it does not depend on the run's.
    """
    # Imported here: it takes a second, and finding data does not need it (see `dataset.py`).
    import torch

    images, labels = published_digits()
    order = numpy_generator(0, "data", "digits", "split").permutation(len(labels))
    test = stratified_test_mask(labels, order, NUM_TEST)
    x = torch.from_numpy(images[:, None].astype(np.float32) / 16)
    y = int_labels(labels)
    return Dataset(
        name="digits",
        x_train=x[~test],
        y_train=y[~test],
        x_test=x[test],
        y_test=y[test],
        classes=tuple("0123456789"),
        low=0.0,
        high=1.0,
    )


def published_digits() -> tuple[np.ndarray, np.ndarray]:
    """Return the images, [1797, 8, 8] with values 0..16, and their labels.

    They are a file of scikit-learn's. To import scikit-learn for it would take longer than all
    the rest of a small run's start, and on Flower every message starts a process.
    """
    package = find_spec("sklearn")
    origin = None if package is None else package.origin
    file = Path(origin or "").parent / "datasets" / "data" / "digits.csv.gz"
    if file.is_file():
        with gzip.open(file, "rt", encoding="ascii") as lines:
            table = np.loadtxt(lines, delimiter=",")
        return table[:, :-1].reshape(-1, 8, 8), table[:, -1].astype(np.int64)
    # A release that keeps them elsewhere, or no scikit-learn at all, which then says so.
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return np.asarray(bunch.images), np.asarray(bunch.target)


SOURCE = Source(
    summary="handwritten digits of 8×8 (UCI, by scikit-learn): 1,297 + 500, 10 classes",
    layouts=(Layout(read_digits),),
)
