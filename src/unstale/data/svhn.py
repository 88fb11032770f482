"""SVHN, the cropped house numbers, from the published MATLAB files."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unstale.data.dataset import Dataset, int_labels, unit_images
from unstale.data.faults import check_labels, damaged
from unstale.data.source import Download, Files, Layout, Source


def read_mat(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.integer]]:
    """Return images [samples, 3, 32, 32] and labels 0..9 of one .mat file.

    The file holds X as [32, 32, 3, samples] and y as 1..10, where 10 is the digit 0.

    Raises:
        DataError: When the file holds anything else.
    """
    # Imported here: only this data set needs it. SciPy comes with scikit-learn.
    from scipy.io import loadmat

    should = "be a MATLAB file with bytes X [32, 32, 3, samples] and y [samples, 1]"
    try:
        content = loadmat(path, variable_names=("X", "y"))
        images, labels = np.asarray(content["X"]), np.asarray(content["y"])
    # SciPy's parser can raise nearly any exception for a damaged file.
    except Exception as error:
        raise damaged(path, should, f"{type(error).__name__}: {error}") from error
    fits = (
        images.dtype == np.uint8
        and images.ndim == 4
        and images.shape[:3] == (32, 32, 3)
        and labels.size == images.shape[3] > 0
        and labels.dtype.kind in "iu"
    )
    if not fits:
        raise damaged(
            path, should, f"X {images.dtype} {images.shape} and y {labels.dtype} {labels.shape}"
        )
    labels = labels.reshape(-1)
    check_labels(path, int(labels.min()), int(labels.max()), 1, 10)
    return images.transpose(3, 2, 0, 1), labels % 10


def read_svhn(files: Files) -> Dataset:
    """Return SVHN as [3, 32, 32] in [0, 1], train and test as published, without "extra"."""
    x_train, y_train = read_mat(files["train_32x32.mat"])
    x_test, y_test = read_mat(files["test_32x32.mat"])
    return Dataset(
        name="svhn",
        x_train=unit_images(x_train),
        y_train=int_labels(y_train),
        x_test=unit_images(x_test),
        y_test=int_labels(y_test),
        classes=tuple("0123456789"),
        low=0.0,
        high=1.0,
    )


_FILES = {
    "train_32x32.mat": "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
    "test_32x32.mat": "md5:eb5a983be6a315427106f1b164d9cef3",
}

SOURCE = Source(
    summary="house numbers of 32×32 in colour: 73,257 + 26,032, 10 classes",
    layouts=(Layout(read_svhn, _FILES, ("svhn", "SVHN", ".")),),
    downloads=tuple(
        Download((f"http://ufldl.stanford.edu/housenumbers/{name}",), f"svhn/{name}", checksum)
        for name, checksum in _FILES.items()
    ),
)
