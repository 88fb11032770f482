import dataclasses

import numpy as np
import pytest
import torch

from unstale.data import Dataset
from unstale.data.dataset import int_labels, unit_images
from unstale.errors import DataError

X = torch.tensor([[0.0, 0.5], [1.0, 0.25], [0.5, 0.5]])
Y = torch.tensor([0, 1, 1])
GOOD = {
    "name": "tiny",
    "x_train": X,
    "y_train": Y,
    "x_test": X[:1],
    "y_test": Y[:1],
    "classes": ("a", "b"),
    "low": 0.0,
    "high": 1.0,
}


def test_properties() -> None:
    data = Dataset(**GOOD)
    assert (data.num_classes, data.input_shape, data.users_train) == (2, (2,), None)
    assert Dataset(**GOOD, users_train=Y).users_train is Y


def test_is_frozen_and_compares_by_identity() -> None:
    data = Dataset(**GOOD)
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.low = 2.0
    assert data != Dataset(**GOOD)
    assert hash(data) == hash(data)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"x_train": X.double()}, "float32"),
        ({"y_test": Y[:1].int()}, "int64"),
        ({"y_train": Y[:2]}, "one input and one label"),
        ({"x_test": X[:0], "y_test": Y[:0]}, "at least one"),
        ({"y_train": Y + 1}, "from 0 to 1. Found 1 to 2"),
        ({"y_train": Y - 1}, "Found -1 to 0"),
        ({"x_train": X * 2}, r"in \[0.0, 1.0\]"),
        ({"x_test": X[:1] * float("nan")}, "test part.*nan"),
        ({"x_train": X / 0.0}, "inputs in"),
        ({"x_test": X[:1, :1]}, "one shape"),
        ({"users_train": Y[:2]}, "users_train"),
        ({"users_train": Y.int()}, "users_train"),
        ({"users_train": Y - 1}, "users_train"),
        ({"classes": ()}, "classes"),
        ({"high": 0.0}, "low < high"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, object], says: str) -> None:
    with pytest.raises(DataError, match=says):
        Dataset(**{**GOOD, **change})


def test_unit_images_covers_0_to_1_and_owns_its_memory() -> None:
    pixels = np.array([[0, 51, 255]], dtype=np.uint8)
    pixels.flags.writeable = False
    x = unit_images(pixels)
    assert x.dtype == torch.float32
    assert torch.equal(x, torch.tensor([[0.0, 0.2, 1.0]]))
    x.zero_()
    assert pixels[0, 2] == 255


def test_int_labels_takes_any_integer_type() -> None:
    assert int_labels(np.array([0, 200], dtype=np.uint8)).tolist() == [0, 200]
    assert int_labels(np.array([1], dtype=np.int8)).dtype == torch.int64
