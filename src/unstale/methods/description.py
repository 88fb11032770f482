"""Methods as JSON values, for checkpoints.

Compensators and aggregators are frozen dataclasses, so a description is the name of
the class and its settings, nested where a part contains others. Only classes of
registered methods can be restored; nothing is imported by name.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from unstale.errors import CheckpointError
from unstale.methods.aggregator_registry import AGGREGATORS
from unstale.methods.chaining import Chain
from unstale.methods.conversion import ConvertAll, InGroups, OnlyUnique, SwitchBack
from unstale.methods.groups import groups_of
from unstale.methods.registry import METHODS, Method


def _known() -> dict[str, type[Any]]:
    classes: list[type[Any]] = [Chain, ConvertAll, InGroups, OnlyUnique, SwitchBack]
    classes += [spec.cls for spec in AGGREGATORS.values()]
    for spec in METHODS.values():
        classes += [spec.compensator, spec.aggregator, *groups_of(spec.compensator).values()]
    return {cls.__name__: cls for cls in classes}


def describe(part: Any) -> Any:
    """Return a part as JSON values; a class that is not registered is recorded by name only."""
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        if _known().get(type(part).__name__) is not type(part):
            return {"part": None, "was": type(part).__name__}
        fields = {f.name: describe(getattr(part, f.name)) for f in dataclasses.fields(part)}
        return {"part": type(part).__name__, "settings": fields}
    if isinstance(part, tuple | list):
        return [describe(item) for item in part]
    if isinstance(part, Mapping):
        return {"table": {str(key): describe(item) for key, item in part.items()}}
    if part is None or isinstance(part, bool | int | float | str):
        return part
    return {"part": None, "was": type(part).__name__}


def rebuild(value: Any) -> Any:
    """Return the part that `describe` described.

    Raises:
        CheckpointError: If the class of a part is not registered.
    """
    if isinstance(value, list):
        return tuple(rebuild(item) for item in value)
    if not isinstance(value, dict):
        return value
    if "table" in value:
        return {key: rebuild(item) for key, item in value["table"].items()}
    cls = _known().get(value["part"]) if value["part"] else None
    if cls is None:
        raise CheckpointError(
            "The method of a checkpoint should be made of registered parts. Found "
            f"'{value.get('was', value['part'])}'. Pass the method: Server.load(dir, method=...)."
        )
    return cls(**{name: rebuild(item) for name, item in value["settings"].items()})


def describe_method(method: Method) -> dict[str, Any]:
    """Return a method as JSON values, from which `rebuild_method` restores it."""
    return {
        "name": method.name,
        "settings": {name: describe(value) for name, value in method.settings.items()},
        "delayed": method.delayed,
        "compensator": describe(method.compensator),
        "aggregator": describe(method.aggregator),
    }


def rebuild_method(value: dict[str, Any]) -> Method:
    """Return the method that `describe_method` described."""
    return Method(
        rebuild(value["compensator"]),
        rebuild(value["aggregator"]),
        value["name"],
        {name: rebuild(item) for name, item in value["settings"].items()},
        value["delayed"],
    )
