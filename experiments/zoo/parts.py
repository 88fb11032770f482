"""The part of each data set that the zoo uses, drawn once, and one file with all parts.

    python experiments/zoo/parts.py --data DIR --out FILE.npz

The file takes the place of the data folder in `run.py --data`, for a machine that cannot be
given all of the data, or lacks what reads it (scikit-learn for digits, Pillow for disaster).
Results are the same with the file and with the folder.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unstale import data
from unstale.data.npz import read_npz
from unstale.errors import DataError
from unstale.seeding import numpy_generator

# Samples for training. More than any cell needs, and few enough for a file of about 60 MB.
SIZES = {
    "digits": 1297,
    "mnist": 12000,
    "fashion_mnist": 12000,
    "cifar10": 6000,
    "hapt": 8289,
    "extrasensory": 12000,
    "disaster": 1600,
}
TEST = 500
# Pixels are stored as bytes, everything else in half precision.
BYTES = ("mnist", "fashion_mnist", "cifar10", "disaster")
ARRAYS = ("x", "y", "x_test", "y_test", "users", "about")


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A part of a data set, in the scaling of `unstale.data.load`."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    users: Tensor | None
    """The user of each training sample, where the data has users."""
    classes: int
    low: float
    high: float


def load_part(name: str, source: Path | None) -> Part:
    """Return the part of a data set.

    Args:
        name: One of `SIZES`.
        source: A data folder, or a file that this script wrote; None looks where
            `unstale.data.load` does.

    Raises:
        DataError: If the data is not there, or a package that reads it is missing.
    """
    if source is not None and source.suffix == ".npz":
        try:
            found = read_npz(source, *(f"{name}/{key}" for key in ARRAYS))
        except (DataError, FileNotFoundError) as error:
            raise DataError(f"{source} should hold '{name}'. Found: {error}") from error
        return decoded(name, dict(zip(ARRAYS, found, strict=True)))
    try:
        return decoded(name, encoded(name, data.load(name, source)))
    except ImportError as error:
        raise DataError(f"Data set '{name}' needs a package that is missing: {error}.") from error


def encoded(name: str, whole: data.Dataset) -> dict[str, np.ndarray[Any, Any]]:
    """Return the part of a data set as it is stored."""
    rows = _drawn(name, "train", len(whole.y_train), SIZES[name])
    test = _drawn(name, "test", len(whole.y_test), TEST)

    def stored(x: Tensor) -> np.ndarray[Any, Any]:
        if name in BYTES:
            return (255 * (x - whole.low) / (whole.high - whole.low)).round().byte().numpy()
        return x.half().numpy()

    users = whole.users_train
    return {
        "x": stored(whole.x_train[rows]),
        "y": whole.y_train[rows].byte().numpy(),
        "x_test": stored(whole.x_test[test]),
        "y_test": whole.y_test[test].byte().numpy(),
        "users": np.zeros(0, np.uint8) if users is None else users[rows].byte().numpy(),
        "about": np.array([whole.num_classes, whole.low, whole.high]),
    }


def decoded(name: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Part:
    """Return what `encoded` stored."""
    classes, low, high = arrays["about"].tolist()

    def read(x: np.ndarray[Any, Any]) -> Tensor:
        values = torch.from_numpy(np.array(x)).float()
        if name in BYTES:
            values = values / 255 * (high - low) + low
        return values.clamp(low, high)

    def whole(y: np.ndarray[Any, Any]) -> Tensor:
        return torch.from_numpy(np.array(y)).long()

    return Part(
        x=read(arrays["x"]),
        y=whole(arrays["y"]),
        x_test=read(arrays["x_test"]),
        y_test=whole(arrays["y_test"]),
        users=whole(arrays["users"]) if len(arrays["users"]) else None,
        classes=int(classes),
        low=low,
        high=high,
    )


def _drawn(name: str, part: str, available: int, wanted: int) -> Tensor:
    order = numpy_generator(0, "zoo", name, part).permutation(available)
    return torch.from_numpy(np.sort(order[:wanted]))


def main() -> None:
    """Write one file with the part of every data set that is found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, help="the data folder")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    arguments = parser.parse_args()
    found: dict[str, np.ndarray[Any, Any]] = {}
    for name in SIZES:
        try:
            part = encoded(name, data.load(name, arguments.data))
        except (DataError, ImportError) as error:
            print(f"left out: {name}: {error}")
            continue
        found |= {f"{name}/{key}": value for key, value in part.items()}
    np.savez_compressed(arguments.out, **found)
    print(f"{arguments.out}: {arguments.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
