"""Dataclasses of tensors as flat lists of tensors, and back.

Whatever is recorded as a CUDA graph takes one dataclass whose fields are tensors,
mappings of tensors by name, tuples of tensors, or None. These functions are how the
graph finds, copies and replaces all of them.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from torch import Tensor

T = TypeVar("T")


def tensors_of(record: Any) -> list[Tensor]:
    """Return all tensors of a dataclass, in the order of its fields.

    Example:
        >>> import torch
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Sums:
        ...     weights: dict[str, Tensor]
        ...     mask: Tensor | None = None
        >>> len(tensors_of(Sums({"a": torch.ones(2), "b": torch.ones(3)})))
        2
    """
    return [tensor for _, tensor in _items(record)]


def with_tensors(record: T, tensors: Sequence[Tensor]) -> T:
    """Return the same dataclass over other tensors, given in the order of `tensors_of`."""
    left = iter(tensors)
    changes: dict[str, Any] = {}
    for field in fields(record):  # type: ignore[arg-type]
        value = getattr(record, field.name)
        if isinstance(value, Mapping):
            changes[field.name] = {name: next(left) for name in value}
        elif isinstance(value, tuple):
            changes[field.name] = tuple(next(left) for _ in value)
        elif value is not None:
            changes[field.name] = next(left)
    return replace(record, **changes)  # type: ignore[type-var]


def layout_of(record: Any) -> Hashable:
    """Return names, shapes, dtypes and devices: records of one layout can share a graph."""
    return type(record), tuple(
        (path, tuple(tensor.shape), tensor.dtype, tensor.device) for path, tensor in _items(record)
    )


def _items(record: Any) -> Iterator[tuple[tuple[str, Hashable], Tensor]]:
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, Mapping):
            yield from (((field.name, name), tensor) for name, tensor in value.items())
        elif isinstance(value, tuple):
            yield from (((field.name, i), tensor) for i, tensor in enumerate(value))
        elif value is not None:
            yield (field.name, ""), value
