"""MNIST and Fashion-MNIST from their IDX files, gzip'd as published or unpacked."""

import gzip
import math
import struct
import zlib
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from unstale.data.dataset import Dataset, int_labels, unit_images
from unstale.data.faults import check_labels, damaged
from unstale.data.source import Download, Files, Layout, Source

if TYPE_CHECKING:
    import torch

MAX_BYTES = 2**30
"""Maximum size that a header may announce; MNIST has 47 MB."""


class Scale(NamedTuple):
    """The usual mean and standard deviation of a data set's pixels in [0, 1]."""

    mean: float
    std: float

    def __call__(self, pixels: "torch.Tensor") -> "torch.Tensor":
        """Return standardised pixels."""
        return (pixels - self.mean) / self.std

    def undo(self, standardised: "torch.Tensor") -> "torch.Tensor":
        """Return the pixels in [0, 1], to within rounding."""
        return standardised * self.std + self.mean


MNIST_SCALE = Scale(mean=0.1307, std=0.3081)
"""The scale of MNIST, and of data sets that have its form."""


def read_idx(path: Path, dims: int) -> NDArray[np.uint8]:
    """Return the bytes of an IDX file with `dims` dimensions.

    The format: two zero bytes, 8 for unsigned bytes, the number of dimensions,
    each dimension as a big-endian 32-bit number, then the values.

    Raises:
        DataError: When the magic number, the length or the compression is wrong.
    """
    should = f"be an IDX file of bytes with {dims} dimensions"
    try:
        with _open(path) as file:
            header = file.read(4 + 4 * dims)
            if header[:4] != bytes((0, 0, 8, dims)) or len(header) < 4 + 4 * dims:
                raise damaged(path, should, f"a header that begins with 0x{header[:4].hex()}")
            shape = struct.unpack(f">{dims}I", header[4:])
            size = math.prod(shape)
            if size > MAX_BYTES:
                raise damaged(path, should, f"a header that announces {size} bytes")
            # One byte more than announced, so that a longer file is seen without reading it all.
            body = file.read(size + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise damaged(path, "be a whole gzip file", str(error)) from error
    if len(body) != size:
        more = "more" if len(body) > size else f"{len(body)}"
        raise damaged(path, f"hold {size} values as its header says", more)
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)


def _open(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path) if path.suffix == ".gz" else path.open("rb"))


def read_idx_set(
    files: Files, name: str, classes: tuple[str, ...], scale: Scale, suffix: str
) -> Dataset:
    """Return the data set of four IDX files: images as [1, height, width], standardised."""
    import torch

    x_train, y_train = _read_part(files, "train", suffix, len(classes), scale)
    x_test, y_test = _read_part(files, "t10k", suffix, len(classes), scale)
    low, high = scale(torch.tensor([0.0, 1.0])).tolist()
    return Dataset(name, x_train, y_train, x_test, y_test, classes, low=low, high=high)


def _read_part(
    files: Files, prefix: str, suffix: str, num_classes: int, scale: Scale
) -> "tuple[torch.Tensor, torch.Tensor]":
    """Return images and labels of one part, after checking that their numbers agree."""
    label_path = files[f"{prefix}-labels-idx1-ubyte{suffix}"]
    images = read_idx(files[f"{prefix}-images-idx3-ubyte{suffix}"], 3)
    labels = read_idx(label_path, 1)
    if images.size == 0 or len(images) != len(labels):
        raise damaged(
            label_path, f"hold a label for each of {len(images)} images", f"{len(labels)}"
        )
    check_labels(label_path, int(labels.min()), int(labels.max()), 0, num_classes - 1)
    return scale(unit_images(images[:, None])), int_labels(labels)


def _source(
    name: str,
    summary: str,
    classes: tuple[str, ...],
    scale: Scale,
    folders: tuple[str, ...],
    mirrors: tuple[str, ...],
    md5: dict[str, tuple[str, str]],
) -> Source:
    """Return the source of a data set in MNIST's format; `md5` has the sums of .gz and unpacked."""
    read = partial(read_idx_set, name=name, classes=classes, scale=scale)
    packed = {f"{file}.gz": f"md5:{sums[0]}" for file, sums in md5.items()}
    plain = {file: f"md5:{sums[1]}" for file, sums in md5.items()}
    return Source(
        summary=summary,
        layouts=(
            Layout(partial(read, suffix=".gz"), packed, folders),
            # torchvision leaves both; others keep only the unpacked ones.
            Layout(partial(read, suffix=""), plain, folders),
        ),
        downloads=tuple(
            Download(tuple(mirror + file for mirror in mirrors), f"{folders[0]}/{file}", checksum)
            for file, checksum in packed.items()
        ),
    )


MNIST = _source(
    name="mnist",
    summary="handwritten digits of 28×28: 60,000 + 10,000, 10 classes",
    classes=tuple("0123456789"),
    scale=MNIST_SCALE,
    folders=("mnist/raw", "mnist", "MNIST/raw", "MNIST"),
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    md5={
        "train-images-idx3-ubyte": (
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "6bbc9ace898e44ae57da46a324031adb",
        ),
        "train-labels-idx1-ubyte": (
            "d53e105ee54ea40749a09fcbcd1e9432",
            "a25bea736e30d166cdddb491f175f624",
        ),
        "t10k-images-idx3-ubyte": (
            "9fb629c4189551a2d022fa330f9573f3",
            "2646ac647ad5339dbf082846283269ea",
        ),
        "t10k-labels-idx1-ubyte": (
            "ec29112dd5afa0611ce80d1b7f02629c",
            "27ae3e4e09519cfbb04c329615203637",
        ),
    },
)

FASHION_MNIST = _source(
    name="fashion_mnist",
    summary="articles of clothing of 28×28: 60,000 + 10,000, 10 classes",
    classes=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
    scale=Scale(mean=0.2860, std=0.3530),
    folders=("fashion_mnist/raw", "fashion_mnist", "FashionMNIST/raw", "fashion-mnist"),
    mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    md5={
        "train-images-idx3-ubyte": (
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        ),
        "train-labels-idx1-ubyte": (
            "25c81989df183df01b3e8a0aad5dffbe",
            "9018921c3c673c538a1fc5bad174d6f9",
        ),
        "t10k-images-idx3-ubyte": (
            "bef4ecab320f06d8554ea6380940ec79",
            "8181f5470baa50b63fa0f6fddb340f0a",
        ),
        "t10k-labels-idx1-ubyte": (
            "bb300cfdad3c16e7a12a480ee83cd310",
            "15d484375f8d13e6eb1aabb0c3f46965",
        ),
    },
)
