"""`Dataset`: the checked result of every reader of a data set."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unstale.errors import DataError

# Here and in the readers torch is imported where data is read: `unstale data check` finds and
# verifies files without it.
if TYPE_CHECKING:
    import torch


class Look(NamedTuple):
    """One of two looks in which a data set has its classes, such as handwriting and print."""

    name: str
    """The name of the data set that it comes from."""
    train: int
    """Number of training samples."""
    test: int
    """Number of test samples."""


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """A data set as scaled tensors on the CPU, with a fixed train and test part.

    The bounds of inputs are known constants, because the server starts an inversion within
    them without having seen any data. Images are therefore scaled by constants (0 and 255;
    for MNIST and Fashion-MNIST also the usual mean and standard deviation), never by
    statistics of the clients' data.

    Raises:
        DataError: When shapes, types, labels or values do not fit together.

    Example:
        >>> import torch
        >>> from unstale.data import Dataset
        >>> x, y = torch.zeros(4, 1, 2, 2), torch.tensor([0, 1, 0, 1])
        >>> data = Dataset("tiny", x, y, x[:2], y[:2], ("a", "b"), 0.0, 1.0)
        >>> data.num_classes, data.input_shape
        (2, (1, 2, 2))
    """

    name: str
    """The name of the data set in the registry."""
    x_train: "torch.Tensor"
    """Training inputs, float32, channels first."""
    y_train: "torch.Tensor"
    """Training labels, int64 in [0, number of classes)."""
    x_test: "torch.Tensor"
    """Test inputs, as `x_train`."""
    y_test: "torch.Tensor"
    """Test labels, as `y_train`."""
    classes: tuple[str, ...]
    """The name of each class, by label."""
    low: float
    """Lower bound of the scaled inputs."""
    high: float
    """Upper bound of the scaled inputs."""
    users_train: "torch.Tensor | None" = None
    """The user of each training sample (int64 from 0), if the data set has users."""
    looks: tuple[Look, ...] = ()
    """The old and the new look, if the data set has two (see `join_looks`): samples of the old one
    come first in each part. Empty if it has one."""

    @property
    def num_classes(self) -> int:
        """The number of classes, including those without samples."""
        return len(self.classes)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input, such as ``(1, 28, 28)``."""
        return tuple(self.x_train.shape[1:])

    def __post_init__(self) -> None:
        import torch

        if not self.classes or not self.low < self.high:
            raise DataError(
                f"Data set '{self.name}' should have classes and low < high. Found "
                f"{len(self.classes)} classes, low {self.low}, high {self.high}."
            )
        self._check_part("train", self.x_train, self.y_train)
        self._check_part("test", self.x_test, self.y_test)
        if self.x_train.shape[1:] != self.x_test.shape[1:]:
            raise DataError(
                f"Data set '{self.name}' should have train and test inputs of one shape. Found "
                f"{tuple(self.x_train.shape[1:])} and {tuple(self.x_test.shape[1:])}."
            )
        users = self.users_train
        if users is not None and (
            users.shape != self.y_train.shape or users.dtype != torch.int64 or int(users.min()) < 0
        ):
            raise DataError(
                f"users_train of data set '{self.name}' should be one int64 from 0 per training "
                f"sample. Found {users.dtype} of shape {tuple(users.shape)}."
            )

        if self.looks and (
            len(self.looks) != 2
            or sum(look.train for look in self.looks) != len(self.y_train)
            or sum(look.test for look in self.looks) != len(self.y_test)
        ):
            raise DataError(
                f"Data set '{self.name}' should have no looks, or two whose samples add up to "
                f"{len(self.y_train)} and {len(self.y_test)}. Found {list(self.looks)}."
            )

    def _check_part(self, part: str, x: "torch.Tensor", y: "torch.Tensor") -> None:
        """Raise DataError unless inputs and labels of a part are valid."""
        import torch

        what = f"The {part} part of data set '{self.name}'"
        if x.dtype != torch.float32 or y.dtype != torch.int64:
            raise DataError(
                f"{what} should hold float32 inputs and int64 labels. Found {x.dtype}, {y.dtype}."
            )
        if x.ndim < 2 or y.ndim != 1 or len(x) != len(y) or len(y) == 0:
            raise DataError(
                f"{what} should hold one input and one label per sample, and at least one. "
                f"Found inputs {tuple(x.shape)}, labels {tuple(y.shape)}."
            )
        if int(y.min()) < 0 or int(y.max()) >= self.num_classes:
            raise DataError(
                f"{what} should have labels from 0 to {self.num_classes - 1}. "
                f"Found {int(y.min())} to {int(y.max())}."
            )
        # NaN fails both comparisons, so this is the check for finite values too.
        low, high = float(x.min()), float(x.max())
        if not (low >= self.low and high <= self.high):
            raise DataError(
                f"{what} should have inputs in [{self.low}, {self.high}]. Found [{low}, {high}]."
            )


def unit_images(pixels: NDArray[np.uint8]) -> "torch.Tensor":
    """Return bytes 0..255 as float32 in [0, 1], without a second float copy."""
    import torch

    # A contiguous copy: torch must not share memory with a read-only buffer.
    return torch.from_numpy(np.array(pixels, order="C")).to(torch.float32).div_(255)


def int_labels(labels: NDArray[np.integer]) -> "torch.Tensor":
    """Return labels of any integer type as int64."""
    import torch

    return torch.from_numpy(np.array(labels, dtype=np.int64))
