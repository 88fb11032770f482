"""Data sets of the library `datasets` (Hugging Face), by the names of their columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unstale.data.dataset import Dataset
from unstale.data.from_arrays import as_array, from_arrays
from unstale.errors import DataError, UnknownNameError


def from_huggingface(
    train: Any,
    test: Any = None,
    *,
    inputs: str | Sequence[str] | None = None,
    label: str | None = None,
    client: str | None = None,
    name: str = "own",
    bounds: tuple[float, float] | None = None,
) -> Dataset:
    """Return a data set of Hugging Face's, with the samples as tensors.

    Images become [channels, height, width] with values from 0 to 1. Other columns of numbers
    keep their shape; several columns are put side by side.

    Args:
        train: The training part, a `datasets.Dataset`; or a `DatasetDict` with the splits `train`
            and `test`.
        test: The test part, if `train` is not both.
        inputs: The column of inputs, or several columns of numbers. If not given, the only column
            of images, or the only one that is neither label nor client.
        label: The column of classes; if not given, the only `ClassLabel`, or `label`.
        client: The column that says who holds a sample; every value becomes a user.
        name: The name of the data set, for the report.
        bounds: As in `from_arrays`.

    Raises:
        DataError: If a part or a column is missing, or inputs have no common shape.
        UnknownNameError: If no column has the name.
    """
    if isinstance(train, Mapping):
        splits = dict(train)
        train = _split(splits, "train")
        test = _split(splits, "test") if test is None else test
    if test is None:
        raise DataError(
            "A data set should have a test part. Found none. Pass test=, or a DatasetDict with "
            "the splits train and test; train.train_test_split(0.2) makes one."
        )
    columns = columns_of(train, inputs, label, client)
    x_train, y_train = examples_of(train, columns)
    x_test, y_test = examples_of(test, columns)
    users = None if client is None else as_array(train[client][:], f"Column '{client}'")
    classes = class_names(train, columns[1])
    return from_arrays(
        x_train, y_train, x_test, y_test, name=name, classes=classes, bounds=bounds, users=users
    )


def is_from_huggingface(value: object) -> bool:
    """Tell whether a value is a `DatasetDict` or a `datasets.Dataset`, without importing it."""
    return type(value).__module__.partition(".")[0] == "datasets"


def columns_of(
    part: Any, inputs: str | Sequence[str] | None, label: str | None, client: str | None = None
) -> tuple[tuple[str, ...], str]:
    """Return the columns of inputs and of labels, found where they are not named.

    Raises:
        DataError: If it is not clear which they are.
        UnknownNameError: If no column has the name.
    """
    known = list(part.column_names)
    kinds = {column: type(feature).__name__ for column, feature in part.features.items()}
    if label is None:
        found = [column for column in known if kinds[column] == "ClassLabel"]
        found = found if len(found) == 1 else [column for column in known if column == "label"]
        if not found:
            raise DataError(
                f"The column of classes should be named, as label='…'. Columns are: "
                f"{', '.join(known)}."
            )
        label = found[0]
    if inputs is None:
        images = [column for column in known if kinds[column] == "Image"]
        rest = [column for column in known if column not in (label, client)]
        found = images if len(images) == 1 else rest
        if len(found) != 1:
            raise DataError(
                f"The column of inputs should be named, as inputs='…'. Columns are: "
                f"{', '.join(known)}."
            )
        inputs = found
    chosen = (inputs,) if isinstance(inputs, str) else tuple(inputs)
    for column in (*chosen, label, *(() if client is None else (client,))):
        if column not in known:
            raise UnknownNameError("A column of the data set", column, known)
    return chosen, label


def examples_of(part: Any, columns: tuple[tuple[str, ...], str]) -> tuple[Any, Any]:
    """Return the inputs and the classes of a part as arrays.

    Raises:
        DataError: If inputs are texts, or have no common shape.
    """
    inputs, label = columns
    for column in (*inputs, label):
        if column not in part.column_names:
            raise UnknownNameError("A column of every part", column, part.column_names)
    found = [_column(part, column) for column in inputs]
    x = found[0] if len(found) == 1 else np.stack([np.asarray(one) for one in found], axis=1)
    return x, as_array(part[label][:], f"Column '{label}'")


def class_names(part: Any, label: str) -> tuple[str, ...] | None:
    """Return the names of the classes, if the column says them."""
    names = getattr(part.features[label], "names", None)
    return None if names is None else tuple(names)


def _column(part: Any, column: str) -> np.ndarray[Any, Any]:
    kind = part.features[column]
    values = part[column][:]
    if type(kind).__name__ == "Image":
        images = [np.asarray(image) for image in values]
        shapes = sorted({image.shape for image in images})
        if len(shapes) > 1:
            raise DataError(
                f"Images of column '{column}' should have one size and mode. Found shapes "
                f"{shapes[0]} and {shapes[1]}. Resize or convert them by `map`."
            )
        stacked = np.stack(images)
        return stacked[:, None] if stacked.ndim == 3 else stacked.transpose(0, 3, 1, 2)
    if getattr(kind, "dtype", "") == "string":
        raise DataError(
            f"Inputs should be numbers or images. Found texts in column '{column}'. Turn them "
            "into token ids of one length by `map`, and name that column."
        )
    return as_array(values, f"Column '{column}'")


def _split(splits: Mapping[str, Any], name: str) -> Any:
    if name not in splits:
        raise UnknownNameError(f"The {name} part of the data set", name, splits)
    return splits[name]
