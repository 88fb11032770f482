"""A tree of state as JSON values and tensors, and back.

The memory of methods is made of string-keyed dicts and lists with tensors and
JSON values as leaves. A checkpoint stores the tensors apart; in their places
the JSON has marks.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from unstale.errors import CheckpointError

TENSOR = "$tensor"


def take_tensors(value: Any, tensors: dict[str, Tensor], path: str = "") -> Any:
    """Return the tree as JSON values and move its tensors, numbered, into `tensors`.

    Raises:
        CheckpointError: If something in it is neither a tensor nor a JSON value; says where.

    Example:
        >>> found = {}
        >>> take_tensors({"a": torch.ones(2), "b": [1, "x"]}, found)
        {'a': {'$tensor': '0', 'device': 'cpu'}, 'b': [1, 'x']}
        >>> found
        {'0': tensor([1., 1.])}
    """
    if isinstance(value, Tensor):
        # Numbered, not named by their place: keys may hold any character, also a separator.
        name = str(len(tensors))
        tensors[name] = value
        return {TENSOR: name, "device": str(value.device)}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise CheckpointError(f"State keys should be strings. Found {key!r} at '{path}'.")
        return {
            _escaped(key): take_tensors(item, tensors, f"{path}/{key}")
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [take_tensors(item, tensors, f"{path}/{i}") for i, item in enumerate(value)]
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
    """Keep a key (a client's name, say) from being taken for the mark of a tensor."""
    return f"${key}" if key.startswith("$") else key


def _unescaped(key: str) -> str:
    return key.removeprefix("$")


def put_tensors(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Return the tree that `take_tensors` took apart."""
    if isinstance(value, dict):
        if TENSOR in value:
            return tensors[value[TENSOR]].to(_device_here(value["device"]))
        return {_unescaped(key): put_tensors(item, tensors) for key, item in value.items()}
    if isinstance(value, list):
        return [put_tensors(item, tensors) for item in value]
    return value


def _device_here(name: str) -> torch.device:
    """Return the device of that name, or the nearest to it: a run may go on elsewhere."""
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        return torch.device("cuda" if torch.cuda.device_count() else "cpu")
    return device
