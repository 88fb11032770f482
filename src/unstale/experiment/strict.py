"""Strict conversion of plain tables (from TOML or JSON) to dataclasses of settings.

An unknown key is an error that suggests the nearest valid one; a value of the wrong type
is an error that says where it is. The only conversions are from integers to floats and
from lists to tuples.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from unstale.errors import ConfigError, UnknownNameError

T = TypeVar("T")


def build(cls: type[T], table: object, where: str) -> T:
    """Return an instance of `cls` with the fields in a table.

    Args:
        cls: A dataclass of settings.
        table: Values by name of field.
        where: The name of the table in the file, for messages.

    Example:
        >>> from unstale.training.local import LocalSpec
        >>> build(LocalSpec, {"lr": 1, "epochs": 5}, "local").lr
        1.0
        >>> build(LocalSpec, {"lrate": 1}, "local")
        Traceback (most recent call last):
        ...
        unstale.errors.UnknownNameError: A key of [local] should be one of: batch_size, betas, \
buffers, epochs, eps, loss, lr, momentum, optimizer, prox, steps, weight_decay. Found 'lrate'. \
Did you mean 'lr'?
    """
    values = checked_table(table, where)
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
    for key in values:
        if key not in fields:
            raise UnknownNameError(f"A key of [{where}]", key, fields)
    made = {key: fit(value, hints[key], f"{where}.{key}") for key, value in values.items()}
    try:
        return cls(**made)
    except ConfigError as error:
        raise ConfigError(f"[{where}] {error}") from error


def build_kind(kinds: Mapping[str, type[T]], table: object, where: str, default: str) -> T:
    """Return an instance of the dataclass that `kind` in the table names."""
    values = dict(checked_table(table, where))
    kind = values.pop("kind", default)
    if not isinstance(kind, str) or kind not in kinds:
        raise UnknownNameError(f"`kind` of [{where}]", str(kind), kinds)
    return build(kinds[kind], values, where)


def checked_table(table: object, where: str) -> Mapping[str, Any]:
    """Return `table`, or raise ConfigError if it is not a table."""
    if not isinstance(table, Mapping):
        raise ConfigError(f"[{where}] should be a table of settings. Found {table!r}.")
    return table


def known_name(value: object, known: tuple[str, ...], where: str) -> str:
    """Return `value`, or raise ConfigError if it is not one of the known names."""
    if value is None:
        raise ConfigError(f"`{where}` should be one of: {', '.join(known)}. Found nothing.")
    if not isinstance(value, str) or value not in known:
        raise UnknownNameError(f"`{where}`", str(value), known)
    return value


def fit(value: Any, hint: Any, where: str) -> Any:
    """Return `value` as the type that `hint` names.

    Raises:
        ConfigError: If it has another type, or is a number that is not finite, which JSON
            (and therefore the saved config) cannot express.
    """
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        options = typing.get_args(hint)
        for option in options:
            try:
                return fit(value, option, where)
            except ConfigError:
                continue
        _fail(where, " or ".join(_name(o) for o in options), value)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            _fail(where, "a list", value)
        items = typing.get_args(hint)
        if len(items) == 2 and items[1] is Ellipsis:
            return tuple(fit(v, items[0], f"{where}[{i}]") for i, v in enumerate(value))
        if len(value) != len(items):
            _fail(where, f"a list of {len(items)} values", value)
        return tuple(fit(v, t, where) for v, t in zip(value, items, strict=True))
    if origin is Mapping:
        key_hint, item_hint = typing.get_args(hint)
        table = checked_table(value, where)
        return {
            fit(key, key_hint, where): fit(item, item_hint, f"{where}.{key}")
            for key, item in table.items()
        }
    if hint is float and type(value) is int:
        return float(value)
    if hint is Any:
        return value
    # `type is` instead of isinstance, which takes True for an int.
    if hint in (int, float, str, bool, type(None)) and type(value) is hint:
        if hint is float and not math.isfinite(value):
            _fail(where, "a finite number", value)
        return value
    _fail(where, _name(hint), value)
    return None


def _fail(where: str, wanted: str, value: object) -> typing.NoReturn:
    raise ConfigError(f"`{where}` should be {wanted}. Found {value!r}.")


def _name(hint: Any) -> str:
    names = {
        int: "a whole number",
        float: "a number",
        str: "a text",
        bool: "true or false",
        type(None): "left out",
    }
    return names.get(hint, "a list" if typing.get_origin(hint) is tuple else str(hint))
