"""Data sets from arrays or tensors that a program holds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unstale.data.dataset import Dataset, int_labels, unit_images
from unstale.errors import DataError

if TYPE_CHECKING:
    import torch


def from_arrays(
    x_train: Any,
    y_train: Any,
    x_test: Any,
    y_test: Any,
    *,
    name: str = "own",
    classes: Sequence[str] | None = None,
    bounds: tuple[float, float] | None = None,
    users: Any = None,
) -> Dataset:
    """Return a data set of tensors, NumPy arrays or nested lists.

    Inputs become float32, in the shape in which the model takes them; bytes (`uint8`) are
    scaled from 0..255 to 0..1. Inputs of any other whole-number type are taken as token ids.

    Args:
        x_train: Training inputs `[samples, ...]`.
        y_train: The class of each training sample: whole numbers from 0, or names.
        x_test: Test inputs.
        y_test: The class of each test sample.
        name: The name of the data set, for the report.
        classes: The name of each class, by label; numbers if not given.
        bounds: The lowest and the highest value that an input can have. A server that converts
            has to know them without seeing data. By default 0 and 1 if all inputs are between
            these, else the lowest and the highest value found.
        users: Who holds each training sample: numbers or names, one for each. Then every user
            is a client, unless another partition is chosen.

    Raises:
        DataError: If shapes, types, labels or values do not fit together.

    Example:
        >>> x, y = np.random.default_rng(0).random((6, 4)), [0, 1, 2, 0, 1, 2]
        >>> data = from_arrays(x, y, x, y, users=["ann", "ann", "bob", "bob", "cy", "cy"])
        >>> data.input_shape, data.num_classes, data.users_train.tolist()
        ((4,), 3, [0, 0, 1, 1, 2, 2])
    """
    inputs = [_inputs(x, part) for x, part in ((x_train, "x_train"), (x_test, "x_test"))]
    labels, names = _labels(y_train, y_test, classes)
    words = None
    if not all(x.is_floating_point() for x in inputs):
        words, bounds = _vocabulary(inputs), None
    low, high = (0.0, float(len(words) - 1)) if words else bounds or _bounds(inputs)
    return Dataset(
        name,
        inputs[0],
        labels[0],
        inputs[1],
        labels[1],
        names,
        float(low),
        float(high),
        users_train=None if users is None else user_numbers(users, len(labels[0])),
        vocabulary=words,
    )


def user_numbers(users: Any, samples: int) -> "torch.Tensor":
    """Return users as numbers from 0, in the order of their sorted ids.

    Raises:
        DataError: If there is not one for every sample.
    """
    ids = np.asarray(users)
    if ids.shape != (samples,):
        raise DataError(
            f"`users` should name one user for each of the {samples} training samples. "
            f"Found an array of shape {ids.shape}."
        )
    return int_labels(np.unique(ids, return_inverse=True)[1])


def as_array(values: Any, what: str) -> np.ndarray[Any, Any]:
    """Return values as a NumPy array; tensors may be on a device and require gradients.

    Raises:
        DataError: If they have no common shape, or are no numbers or texts.
    """
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    try:
        found = np.asarray(values)
    except ValueError as error:
        raise DataError(
            f"All samples of {what} should have one shape. Found: {error}. Pad or resize them."
        ) from error
    if found.dtype == object:
        raise DataError(
            f"{what} should hold numbers of one shape for every sample. Found objects such as "
            f"{type(found.flat[0]).__name__ if found.size else 'none'}. Convert them first."
        )
    return found


def _inputs(values: Any, what: str) -> "torch.Tensor":
    import torch

    found = as_array(values, f"`{what}`")
    if found.dtype == np.uint8:
        return unit_images(found)
    if found.dtype.kind in "iu":
        return torch.from_numpy(found.astype(np.int64))
    if found.dtype.kind not in "fb":
        raise DataError(
            f"`{what}` should hold numbers. Found {found.dtype}. Turn texts into token ids first."
        )
    scaled = torch.from_numpy(np.array(found, dtype=np.float32, order="C"))
    if not bool(torch.isfinite(scaled).all()):
        raise DataError(
            f"`{what}` should hold finite numbers. Found NaN or infinity. Replace them first."
        )
    return scaled


def _labels(
    y_train: Any, y_test: Any, classes: Sequence[str] | None
) -> tuple[list["torch.Tensor"], tuple[str, ...]]:
    parts = [as_array(y_train, "`y_train`"), as_array(y_test, "`y_test`")]
    for what, part in zip(("y_train", "y_test"), parts, strict=True):
        if part.dtype.kind not in "iubU":
            raise DataError(
                f"`{what}` should hold classes: whole numbers from 0, or names. "
                f"Found {part.dtype}. Convert it, as by .astype(int)."
            )
        if part.ndim != 1 or not part.size:
            raise DataError(
                f"`{what}` should hold one class for every sample. Found shape {part.shape}."
            )
    if any(part.dtype.kind == "U" for part in parts):
        known = tuple(classes or sorted({str(one) for part in parts for one in part}))
        number = {label: i for i, label in enumerate(known)}
        missing = sorted({str(one) for part in parts for one in part} - set(number))
        if missing:
            raise DataError(f"`classes` should name every class. Missing: {', '.join(missing)}.")
        parts = [np.array([number[str(one)] for one in part]) for part in parts]
    else:
        count = max(int(part.max()) for part in parts) + 1
        known = tuple(classes or (str(i) for i in range(max(count, 2))))
    return [int_labels(part) for part in parts], known


def _vocabulary(inputs: list["torch.Tensor"]) -> tuple[str, ...]:
    if any(x.is_floating_point() for x in inputs):
        raise DataError(
            "`x_train` and `x_test` should have one type. Found numbers in one and token ids in "
            "the other. Convert one of them."
        )
    low, high = min(int(x.min()) for x in inputs), max(int(x.max()) for x in inputs)
    if low < 0:
        raise DataError(
            f"Whole-number inputs are token ids, which should begin at 0. Found {low}. Convert "
            "them to floats if they are measured numbers."
        )
    return tuple(str(i) for i in range(max(high, 1) + 1))


def _bounds(inputs: list["torch.Tensor"]) -> tuple[float, float]:
    low, high = min(float(x.min()) for x in inputs), max(float(x.max()) for x in inputs)
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return low, high if high > low else low + 1.0
