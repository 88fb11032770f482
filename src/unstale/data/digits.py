"""`digits`: scikit-learn's 1,797 handwritten digits of 8×8, embedded: no file, no network."""

import numpy as np

from unstale.data.dataset import Dataset, int_labels
from unstale.data.source import Files, Layout, Source
from unstale.data.split import stratified_test_mask
from unstale.seeding import numpy_generator

NUM_TEST = 500


def read_digits(files: Files) -> Dataset:
    """Return the digits as [1, 8, 8] in [0, 1]: 1,297 to train, 500 to test.

    The published values are 0..16. There is no published split for this part of
    the UCI data, so one is drawn once for all, the same share of every class,
    from a seed of its own: the seed of a run does not change what is tested.
    """
    # Imported here: both take a second, and finding data needs neither (see `dataset.py`).
    import torch
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images, labels = np.asarray(bunch.images), np.asarray(bunch.target)
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


SOURCE = Source(
    summary="handwritten digits of 8×8 (UCI, by scikit-learn): 1,297 + 500, 10 classes",
    layouts=(Layout(read_digits),),
)
