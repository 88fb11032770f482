"""Methods as data: what a checkpoint writes down to make a method again.

Compensators and aggregators are frozen dataclasses, so a description is the
class's name and its settings, with parts inside parts described likewise. Only
classes that are registered can be named; nothing is imported by name.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from unstale.errors import CheckpointError
from unstale.methods.chaining import Chain
from unstale.methods.conversion import ConvertAll, OnlyUnique, SwitchBack
from unstale.methods.groups import groups_of
from unstale.methods.registry import METHODS, Method


def _known() -> dict[str, type[Any]]:
    classes: list[type[Any]] = [Chain, ConvertAll, OnlyUnique, SwitchBack]
    for spec in METHODS.values():
        classes += [spec.compensator, spec.aggregator, *groups_of(spec.compensator).values()]
    return {cls.__name__: cls for cls in classes}


def describe(part: Any) -> Any:
    """Return JSON values for a part; None stands for a class that is not registered."""
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
    """Return the part that `describe` wrote down.

    Raises:
        CheckpointError: If a part's class is not registered here.
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
    """Return JSON values from which `rebuild_method` makes the method again."""
    return {
        "name": method.name,
        "settings": {name: describe(value) for name, value in method.settings.items()},
        "delayed": method.delayed,
        "compensator": describe(method.compensator),
        "aggregator": describe(method.aggregator),
    }


def rebuild_method(value: dict[str, Any]) -> Method:
    """Return the method that `describe_method` wrote down."""
    return Method(
        rebuild(value["compensator"]),
        rebuild(value["aggregator"]),
        value["name"],
        {name: rebuild(item) for name, item in value["settings"].items()},
        value["delayed"],
    )
