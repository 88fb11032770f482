"""Settings in groups: dataclasses whose fields are dataclasses, from nested tables.

`Convert` is composed of `inversion`, `uniqueness`, `switching`, `stand_in`, `calibration` and
`budget`. By name they are given as tables, here and in experiment files alike. A group that can
be turned off also takes a bool:

    method("convert", inversion={"sparsity": 0}, switching={"patience": 3}, stand_in=False)
"""

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

from unstale.errors import ConfigError, UnknownNameError


def groups_of(part: type[Any]) -> dict[str, type[Any]]:
    """Return the groups among a part's settings: the dataclass of each, by name.

    Example:
        >>> from unstale.methods import Convert, Drop
        >>> sorted(groups_of(Convert))[:4], groups_of(Drop)
        (['budget', 'calibration', 'inversion', 'recipe_check'], {})
    """
    hints = typing.get_type_hints(part)
    names = [field.name for field in dataclasses.fields(part)]
    return {
        name: hints[name]
        for name in names
        if isinstance(hints[name], type) and dataclasses.is_dataclass(hints[name])
    }


def group_with(part: type[Any], setting: str) -> str | None:
    """Return the group of a part that has a setting of that name, or None."""
    for name, group in groups_of(part).items():
        if setting in {field.name for field in dataclasses.fields(group)}:
            return name
    return None


def with_enabled(group: type[Any], value: Any) -> Any:
    """Return a bool as the table that turns a group on or off; other values as they are.

    Example:
        >>> from unstale.methods import Budget, StandIn
        >>> with_enabled(StandIn, False), with_enabled(Budget, False)
        ({'enabled': False}, False)
    """
    can_be_off = any(field.name == "enabled" for field in dataclasses.fields(group))
    return {"enabled": value} if can_be_off and isinstance(value, bool) else value


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return two nested tables as one; where both have a value, that of `above`.

    Example:
        >>> merged({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}, "b": 4})
        {'a': {'x': 1, 'y': 3}, 'b': 4}
    """
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merged(old, value) if both else value  # type: ignore[arg-type]
    return result


def make_part(part: type[Any], values: Mapping[str, Any], method: str) -> Any:
    """Return a compensator or aggregator from those of the values that are its settings.

    Args:
        part: The dataclass.
        values: Settings by name; groups as tables, as objects of their dataclass, or as a
            bool where they can be turned off.
        method: The method's name, for messages.

    Raises:
        UnknownNameError: If a group has no such setting; names the nearest.
        ConfigError: If a value is not what it should be.
    """
    groups = groups_of(part)
    own = {field.name for field in dataclasses.fields(part)}
    found = {key: value for key, value in values.items() if key in own}
    for name, group in groups.items():
        if isinstance(table := with_enabled(group, found.get(name)), Mapping):
            found[name] = _make_group(group, table, name, method)
    return _made(part, found, f"Method '{method}'")


def _make_group(group: type[Any], table: Mapping[str, Any], name: str, method: str) -> Any:
    known = {field.name for field in dataclasses.fields(group)}
    for key in table:
        if key not in known:
            raise UnknownNameError(f"A setting of '{name}' of method '{method}'", key, known)
    return _made(group, table, f"Method '{method}', {name}")


def _made(cls: type[Any], values: Mapping[str, Any], where: str) -> Any:
    try:
        return cls(**values)
    except TypeError as error:  # a value of the wrong type, met in a comparison
        raise ConfigError(f"{where}: {error}. Found settings {dict(values)}.") from error
