"""Separating the tensors of a state tree from its JSON values, for checkpoints.

The state of a method consists of nested dicts (with string keys) and lists whose leaves
are tensors or JSON values. A checkpoint stores the tensors in a file of their own; the
JSON has a reference, `{"$tensor": name}`, in the place of each. A tensor that is in several
places is stored once, and is one tensor again when it is read.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from unstale.errors import CheckpointError

TENSOR = "$tensor"


def take_tensors(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Return the tree as JSON values, with references to its tensors.

    Args:
        value: The tree.
        tensors: Filled with the tensors, by number.

    Raises:
        CheckpointError: If a leaf is neither a tensor nor a JSON value.

    Example:
        >>> found = {}
        >>> take_tensors({"a": torch.ones(2), "b": [1, "x"]}, found)
        {'a': {'$tensor': '0', 'device': 'cpu'}, 'b': [1, 'x']}
        >>> found
        {'0': tensor([1., 1.])}
    """
    return _take(value, tensors, {}, "")


def _take(value: Any, tensors: dict[str, Tensor], names: dict[int, str], path: str) -> Any:
    """Return a part of the tree; `names` has the tensors so far by identity."""
    if isinstance(value, Tensor):
        # Numbered instead of named by path: keys may contain any character, even a separator.
        name = names.setdefault(id(value), str(len(tensors)))
        tensors[name] = value
        return {TENSOR: name, "device": str(value.device)}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise CheckpointError(f"State keys should be strings. Found {key!r} at '{path}'.")
        return {
            _escaped(key): _take(item, tensors, names, f"{path}/{key}")
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_take(item, tensors, names, f"{path}/{i}") for i, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise CheckpointError(
            f"Numbers of a state should be finite, as JSON's are. Found {value} at '{path}'. "
            "Keep it as a tensor."
        )
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise CheckpointError(
        "State should be made of dicts, lists, tensors and JSON values. "
        f"Found {type(value).__name__} at '{path}'."
    )


def _escaped(key: str) -> str:
    """Escape a key (such as a client id) that could be mistaken for a tensor reference."""
    return f"${key}" if key.startswith("$") else key


def _unescaped(key: str) -> str:
    return key.removeprefix("$")


def put_tensors(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Return the tree from the results of `take_tensors`."""
    return _put(value, tensors, {})


def _put(value: Any, tensors: Mapping[str, Tensor], moved: dict[str, Tensor]) -> Any:
    """Return a part of the tree; `moved` has the tensors that are on their device already."""
    if isinstance(value, dict):
        if TENSOR in value:
            name = value[TENSOR]
            if name not in moved:
                moved[name] = tensors[name].to(_device_here(value["device"]))
            return moved[name]
        return {_unescaped(key): _put(item, tensors, moved) for key, item in value.items()}
    if isinstance(value, list):
        return [_put(item, tensors, moved) for item in value]
    return value


def _device_here(name: str) -> torch.device:
    """Return the device of that name, or another if this machine does not have it."""
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        return torch.device("cuda" if torch.cuda.device_count() else "cpu")
    return device
