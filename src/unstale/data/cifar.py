"""CIFAR-10 from its published files, in the binary or the python format."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unstale.data.dataset import Dataset, int_labels, unit_images
from unstale.data.faults import check_labels, damaged
from unstale.data.source import Download, Files, Layout, Source
from unstale.data.unpickle import read_pickled_batch

CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
PIXELS = 3 * 32 * 32

Batch = tuple[NDArray[np.uint8], NDArray[np.integer]]


def read_binary_batch(path: Path) -> Batch:
    """Return rows of 3,072 bytes and labels from a file of records: a label, then the pixels."""
    content = np.fromfile(path, dtype=np.uint8)
    if len(content) == 0 or len(content) % (1 + PIXELS):
        raise damaged(path, f"hold records of {1 + PIXELS} bytes", f"{len(content)} bytes")
    records = content.reshape(-1, 1 + PIXELS)
    return records[:, 1:], records[:, 0]


def read_cifar(files: Files, read_batch: Callable[[Path], Batch]) -> Dataset:
    """Return CIFAR-10 as [3, 32, 32] in [0, 1]; every file but the test batch is for training."""
    images: dict[bool, list[NDArray[np.uint8]]] = {True: [], False: []}
    labels: dict[bool, list[NDArray[np.integer]]] = {True: [], False: []}
    for name, path in files.items():
        pixels, y = read_batch(path)
        if pixels.ndim != 2 or pixels.shape[1] != PIXELS or len(pixels) != len(y) or len(y) == 0:
            raise damaged(
                path,
                f"hold a row of {PIXELS} bytes and a label for each image",
                f"an array of shape {pixels.shape} and {len(y)} labels",
            )
        check_labels(path, int(y.min()), int(y.max()), 0, len(CLASSES) - 1)
        train = not name.startswith("test_batch")
        images[train].append(pixels.reshape(-1, 3, 32, 32))
        labels[train].append(y)
    return Dataset(
        name="cifar10",
        x_train=unit_images(np.concatenate(images[True])),
        y_train=int_labels(np.concatenate(labels[True])),
        x_test=unit_images(np.concatenate(images[False])),
        y_test=int_labels(np.concatenate(labels[False])),
        classes=CLASSES,
        low=0.0,
        high=1.0,
    )


# The publisher gives a checksum of the archives only; these are of the files within.
_BINARY = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
_PYTHON = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}

SOURCE = Source(
    summary="photographs of 32×32 in colour: 50,000 + 10,000, 10 classes",
    layouts=(
        Layout(
            partial(read_cifar, read_batch=read_binary_batch),
            {name: f"sha256:{digest}" for name, digest in _BINARY.items()},
            ("cifar-10-batches-bin", "cifar10/cifar-10-batches-bin", "cifar10"),
        ),
        Layout(
            partial(read_cifar, read_batch=read_pickled_batch),
            {name: f"md5:{digest}" for name, digest in _PYTHON.items()},
            ("cifar-10-batches-py", "cifar10/cifar-10-batches-py", "cifar10"),
        ),
    ),
    # The binary archive and not the python one: the less pickle, the better.
    downloads=(
        Download(
            ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            "cifar-10-binary.tar.gz",
            "md5:c32a1d4ab5d03f1284b67883e8d87530",
            members=tuple(f"cifar-10-batches-bin/{name}" for name in _BINARY),
        ),
    ),
)
