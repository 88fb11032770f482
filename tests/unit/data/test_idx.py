import gzip
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from unstale import data
from unstale.data.idx import read_idx
from unstale.errors import DataError

IMAGES = np.arange(3 * 4 * 5, dtype=np.uint8).reshape(3, 4, 5) * 4
LABELS = np.array([7, 0, 9], dtype=np.uint8)


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_set(folder: Path, suffix: str = ".gz") -> Path:
    folder.mkdir(parents=True)
    for prefix, count in (("train", 3), ("t10k", 2)):
        for name, array in (("images-idx3", IMAGES[:count]), ("labels-idx1", LABELS[:count])):
            raw = idx_bytes(array)
            path = folder / f"{prefix}-{name}-ubyte{suffix}"
            path.write_bytes(gzip.compress(raw) if suffix else raw)
    return folder


@pytest.mark.parametrize("folder", ["mnist/raw", "mnist", "MNIST/raw"])
@pytest.mark.parametrize("suffix", [".gz", ""])
def test_a_written_set_is_read_back(tmp_path: Path, folder: str, suffix: str) -> None:
    write_set(tmp_path / folder, suffix)
    mnist = data.load("mnist", tmp_path)
    assert (mnist.name, mnist.input_shape) == ("mnist", (1, 4, 5))
    pixels = (torch.from_numpy(IMAGES).double() / 255 - 0.1307) / 0.3081
    torch.testing.assert_close(mnist.x_train[:, 0].double(), pixels, rtol=0, atol=1e-6)
    assert mnist.y_train.tolist() == [7, 0, 9]
    assert mnist.y_test.tolist() == [7, 0]
    bounds = (-0.1307 / 0.3081, (1 - 0.1307) / 0.3081)  # black and white, standardised
    assert (mnist.low, mnist.high) == pytest.approx(bounds)


def test_fashion_is_not_taken_for_mnist(tmp_path: Path) -> None:
    write_set(tmp_path / "fashion_mnist/raw")
    fashion = data.load("fashion_mnist", tmp_path)
    assert (fashion.name, fashion.classes[7]) == ("fashion_mnist", "Sneaker")
    with pytest.raises(DataError, match="train-images"):
        data.load("mnist", tmp_path)


RAW = idx_bytes(LABELS)
PACKED = gzip.compress(RAW)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "whole gzip|begins with"),
        (b"not gzip at all", "gzip"),
        (PACKED[:-12], "gzip"),
        (PACKED[:12] + bytes([PACKED[12] ^ 255]) + PACKED[13:], "gzip|IDX|values"),
        (gzip.compress(b"\0\0\x0d\1" + RAW[4:]), "0x00000d01"),  # floats
        (gzip.compress(idx_bytes(IMAGES)), "0x00000803"),  # images where labels should be
        (gzip.compress(RAW[:6]), "header"),
        (gzip.compress(RAW[:-1]), "hold 3 values as its header says. Found 2"),
        (gzip.compress(RAW + b"\0"), "Found more"),
        (gzip.compress(b"\0\0\x08\1" + b"\xff" * 4), "announces 4294967295"),
        (gzip.compress(idx_bytes(LABELS[:2])), "label for each of 3 images. Found 2"),
        (gzip.compress(idx_bytes(LABELS + 1)), "labels from 0 to 9. Found labels from 1 to 10"),
    ],
    ids=lambda value: value if isinstance(value, str) else "bytes",
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes, says: str) -> None:
    path = write_set(tmp_path / "mnist") / "train-labels-idx1-ubyte.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=says) as error:
        data.load("mnist", tmp_path)
    assert str(path) in str(error.value)


def test_empty_files_are_damaged(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "mnist")
    for name, array in (("images-idx3", IMAGES[:0]), ("labels-idx1", LABELS[:0])):
        (folder / f"t10k-{name}-ubyte.gz").write_bytes(gzip.compress(idx_bytes(array)))
    with pytest.raises(DataError, match="t10k-labels"):
        data.load("mnist", tmp_path)


def test_an_unpacked_file_under_the_name_of_a_packed_one(tmp_path: Path) -> None:
    packed = write_set(tmp_path / "mnist")
    plain = write_set(tmp_path / "plain", "")
    name = "train-images-idx3-ubyte"
    shutil.copy(plain / name, packed / f"{name}.gz")
    with pytest.raises(DataError, match="gzip"):
        read_idx(packed / f"{name}.gz", 3)
