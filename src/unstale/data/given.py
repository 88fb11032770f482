"""Data in the forms in which programs hold it: arrays, PyTorch data sets, one part per client."""

from collections.abc import Mapping, Sequence, Sized
from dataclasses import replace
from typing import Any

import numpy as np

from unstale.data.dataset import Dataset
from unstale.data.from_arrays import as_array, from_arrays
from unstale.data.from_flower import from_flower, is_from_flower
from unstale.data.from_huggingface import from_huggingface, is_from_huggingface
from unstale.errors import DataError

FORMS = (
    "(x_train, y_train, x_test, y_test) as tensors or arrays, a pair of PyTorch data sets "
    "(train, test), a pair (clients, test) with one (x, y) or data set for each client, a "
    "FederatedDataset of flwr-datasets, a DatasetDict of datasets, or an `unstale.data.Dataset`"
)


def as_dataset(data: object, *, name: str = "own") -> Dataset:
    """Return data of any form that `simulate` takes as a data set.

    Args:
        data: Tensors or arrays `(x_train, y_train, x_test, y_test)` or
            `((x_train, y_train), (x_test, y_test))`; a pair of PyTorch data sets of (input,
            label); a pair of what each client holds and a test part; a `FederatedDataset`, or a
            pair of a partitioner and a test part; a `DatasetDict`, or a pair of Hugging Face's
            data sets; or a `Dataset`, which is returned as it is.
        name: The name of the data set, where it has none.

    Raises:
        DataError: If it is none of these, or its parts do not fit together.

    Example:
        >>> x, y = np.zeros((4, 3)), np.array([0, 1, 0, 1])
        >>> as_dataset((x, y, x, y)).input_shape
        (3,)
        >>> as_dataset(({"ann": (x, y), "bob": (x, y)}, (x, y))).users_train.tolist()
        [0, 0, 0, 0, 1, 1, 1, 1]
    """
    if isinstance(data, Dataset):
        return data
    if is_from_flower(data):
        return from_flower(data)
    if is_from_huggingface(data):
        return from_huggingface(data)
    if isinstance(data, tuple | list) and len(data) == 4:
        return from_arrays(*data, name=name)
    if isinstance(data, tuple | list) and len(data) == 2:
        train, test = data
        if is_from_flower(train):
            return from_flower(train, test, name=name)
        if is_from_huggingface(train):
            return from_huggingface(train, test, name=name)
        if _is_clients(train):
            return from_clients(train, test, name=name)
        if not _is_array(train):
            return from_arrays(*_examples(train, "train"), *_examples(test, "test"), name=name)
    shown = type(data).__name__
    if isinstance(data, Sized):
        shown = f"{shown} of length {len(data)}"
    raise DataError(f"`data` should be {FORMS}. Found {shown}.")


def from_torch(train: Any, test: Any, **options: Any) -> Dataset:
    """Return the data set of two PyTorch data sets of (input, label).

    Args:
        train: The training samples: anything with a length and items `(input, label)`, such as a
            `TensorDataset` or one of torchvision with a transform.
        test: The test samples.
        options: As in `from_arrays`.

    Raises:
        DataError: If a sample is not (input, label), or samples differ in shape.
    """
    return from_arrays(*_examples(train, "train"), *_examples(test, "test"), **options)


def from_clients(clients: Sequence[Any] | Mapping[Any, Any], test: Any, **options: Any) -> Dataset:
    """Return the data set of what every client holds; each becomes a user.

    Args:
        clients: For each client `(x, y)` or a PyTorch data set of (input, label); in a list, or
            by the client's id.
        test: The test part, in the same form.
        options: As in `from_arrays`.

    Raises:
        DataError: If a client has no samples, or samples differ in shape.
    """
    held = list(clients.values()) if isinstance(clients, Mapping) else list(clients)
    names = list(clients) if isinstance(clients, Mapping) else list(range(len(held)))
    parts = [_examples(one, f"client {name}") for one, name in zip(held, names, strict=True)]
    for (x, y), name in zip(parts, names, strict=True):
        if not len(y) or len(x) != len(y):
            raise DataError(
                f"Client {name} should hold at least one sample, and one label for each. Found "
                f"{len(x)} inputs and {len(y)} labels. Leave out clients without data."
            )
    if not parts:
        raise DataError("`data` should have at least one client. Found none.")
    try:
        x = np.concatenate([part[0] for part in parts])
    except ValueError as error:
        raise DataError(
            f"All clients should hold inputs of one shape. Found: {error}. Pad or resize them."
        ) from error
    y = np.concatenate([part[1] for part in parts])
    # By place and not by id: clients keep the order in which they are given.
    users = np.repeat(np.arange(len(parts)), [len(part[1]) for part in parts])
    return from_arrays(x, y, *_examples(test, "test"), users=users, **options)


def with_clients(
    dataset: Dataset,
    clients: Sequence[Any] | Mapping[Any, Any] | np.ndarray[Any, Any],
    *,
    what: str = "`clients`",
) -> Dataset:
    """Return a data set of the listed training samples, with the client of each as its user.

    Args:
        dataset: The data set.
        clients: The indices of each client's training samples; in a list, or by the client's id.
        what: What holds the lists, for messages.

    Raises:
        DataError: If a client is empty, an index is none of a sample, or a sample is on two.

    Example:
        >>> data = from_arrays(np.zeros((4, 2)), [0, 1, 0, 1], np.zeros((1, 2)), [0])
        >>> held = with_clients(data, [[3, 0], [2]])
        >>> held.y_train.tolist(), held.users_train.tolist()
        ([0, 0, 1], [0, 1, 0])
    """
    import torch

    samples = len(dataset.y_train)
    if dataset.looks:
        raise DataError(f"{what} should name a partition for data with two looks. Found lists.")
    lists = clients if isinstance(clients, Mapping) else dict(enumerate(clients))
    owner = np.full(samples, -1, dtype=np.int64)
    for place, (name, indices) in enumerate(lists.items()):
        found = as_array(indices, f"Client {name} of {what}")
        if found.ndim != 1 or not found.size or found.dtype.kind not in "iu":
            raise DataError(
                f"Client {name} of {what} should have a list of at least one index of a training "
                f"sample. Found {found.dtype} of shape {found.shape}."
            )
        if found.min() < 0 or found.max() >= samples:
            wrong = found.min() if found.min() < 0 else found.max()
            raise DataError(
                f"{what} should have indices from 0 to {samples - 1}, since there are {samples} "
                f"training samples. Found {wrong} of client {name}."
            )
        taken = found[owner[found] >= 0]
        if len(taken) or len(np.unique(found)) < len(found):
            twice = taken[0] if len(taken) else np.sort(found)[:-1][np.diff(np.sort(found)) == 0][0]
            raise DataError(
                f"{what} should give every sample to at most one client, once. Found sample "
                f"{twice} twice, the second time of client {name}."
            )
        owner[found] = place
    if not lists:
        raise DataError(f"{what} should have at least one client. Found none.")
    kept = torch.from_numpy(np.flatnonzero(owner >= 0))
    return replace(
        dataset,
        x_train=dataset.x_train[kept],
        y_train=dataset.y_train[kept],
        users_train=torch.from_numpy(owner)[kept],
    )


def _examples(part: Any, what: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the inputs and labels of a part: of (x, y), or of a PyTorch data set."""
    if isinstance(part, tuple | list) and len(part) == 2 and all(_is_array(one) for one in part):
        return as_array(part[0], f"Inputs of {what}"), as_array(part[1], f"Labels of {what}")
    if not (hasattr(part, "__getitem__") and hasattr(part, "__len__")):
        raise DataError(
            f"The part '{what}' should be (x, y), or a PyTorch data set with a length and items "
            f"(input, label). Found {type(part).__name__}."
        )
    xs, ys = [], []
    for i in range(len(part)):
        item = part[i]
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise DataError(
                f"An item of the part '{what}' should be (input, label). Found "
                f"{type(item).__name__} at place {i}."
            )
        xs.append(as_array(item[0], f"Inputs of {what}"))
        ys.append(as_array(item[1], f"Labels of {what}"))
    if not xs:
        raise DataError(f"The part '{what}' should hold at least one sample. Found none.")
    shapes = {one.shape for one in xs}
    if len(shapes) > 1:
        first, second = sorted(shapes)[:2]
        raise DataError(
            f"All inputs of the part '{what}' should have one shape. Found {first} and {second}. "
            "Resize them by a transform."
        )
    return np.stack(xs), np.stack(ys)


def _is_array(value: object) -> bool:
    """Tell tensors, arrays and lists of numbers from data sets and from pairs of arrays."""
    if isinstance(value, tuple | list):
        return bool(value) and isinstance(value[0], int | float | str | list)
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _is_clients(train: Any) -> bool:
    """Tell what clients hold, one by one, from a training part."""
    if isinstance(train, Mapping):
        return True
    listed = isinstance(train, tuple | list) and len(train) > 0
    return listed and not all(_is_array(one) for one in train)
