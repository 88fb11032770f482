"""Partitioned data of `flwr-datasets`: every partition becomes a client."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from unstale.data.dataset import Dataset
from unstale.data.from_arrays import from_arrays
from unstale.data.from_huggingface import class_names, columns_of, examples_of
from unstale.errors import DataError, UnknownNameError


def from_flower(
    source: Any,
    test: Any = None,
    *,
    split: str | None = None,
    inputs: str | Sequence[str] | None = None,
    label: str | None = None,
    name: str = "own",
    bounds: tuple[float, float] | None = None,
) -> Dataset:
    """Return the data set of a `FederatedDataset` or a partitioner; its ids become users.

    Args:
        source: A `FederatedDataset`, or any partitioner whose `dataset` is set.
        test: The test part, a `datasets.Dataset`; of a `FederatedDataset` the name of a split
            will do, by default `test`.
        split: The partitioned split of a `FederatedDataset`; may be left out if it has one.
        inputs: The column of inputs, as in `from_huggingface`.
        label: The column of classes, as in `from_huggingface`.
        name: The name of the data set, for the report.
        bounds: As in `from_arrays`.

    Raises:
        DataError: If a part is missing, a partition is empty, or columns are not clear.
    """
    if hasattr(source, "partitioners"):
        partitioner, test = _of_federated(source, split, test)
    else:
        partitioner = source
    if not (hasattr(partitioner, "load_partition") and hasattr(partitioner, "num_partitions")):
        raise DataError(
            "The source should be a FederatedDataset or a partitioner of flwr-datasets. "
            f"Found {type(source).__name__}."
        )
    if not partitioner.is_dataset_assigned():
        raise DataError(
            f"A partitioner should have its data. Found a {type(partitioner).__name__} without. "
            "Set `partitioner.dataset = …` first."
        )
    if test is None or isinstance(test, str):
        raise DataError(
            "A partitioner holds training data only. Pass the test part as test=, a "
            "datasets.Dataset."
        )
    parts = [partitioner.load_partition(i) for i in range(partitioner.num_partitions)]
    for i, part in enumerate(parts):
        if not len(part):
            raise DataError(
                f"Every partition should hold at least one sample. Found partition {i} empty. "
                "Lower the number of partitions, or give the partitioner a least size."
            )
    columns = columns_of(parts[0], inputs, label)
    held = [examples_of(part, columns) for part in parts]
    x_test, y_test = examples_of(test, columns)
    return from_arrays(
        np.concatenate([x for x, _ in held]),
        np.concatenate([y for _, y in held]),
        x_test,
        y_test,
        name=name,
        classes=class_names(parts[0], columns[1]),
        bounds=bounds,
        users=np.repeat(np.arange(len(parts)), [len(part) for part in parts]),
    )


def is_from_flower(value: object) -> bool:
    """Tell whether a value is of flwr-datasets, without importing it."""
    return any(one.__module__.startswith("flwr_datasets.") for one in type(value).__mro__)


def _of_federated(source: Any, split: str | None, test: Any) -> tuple[Any, Any]:
    partitioners = source.partitioners
    if split is None:
        if len(partitioners) != 1:
            raise DataError(
                "The partitioned split should be named where there are several. Found: "
                f"{', '.join(partitioners)}. Pass split=."
            )
        split = next(iter(partitioners))
    if split not in partitioners:
        raise UnknownNameError("The partitioned split", split, partitioners)
    if test is None or isinstance(test, str):
        wanted = test or "test"
        try:
            test = source.load_split(wanted)
        except ValueError as error:
            raise DataError(
                f"The data should have a test part, here the split '{wanted}'. Found: {error} "
                "Pass another split's name or a datasets.Dataset as test=."
            ) from error
    return partitioners[split], test
