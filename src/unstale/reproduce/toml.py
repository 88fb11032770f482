"""Reading the tables of TOML files that describe items: wrong keys and types are errors."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from unstale.errors import ConfigError, UnknownNameError


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file.

    Raises:
        ConfigError: If it cannot be read.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} should be readable TOML. Found: {error}.") from error


def check_keys(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Raise UnknownNameError if a table has a key that it should not have."""
    known = set(known)
    for key in table:
        if key not in known:
            raise UnknownNameError(f"A key of {where}", key, known)


def get(
    table: Mapping[str, Any], key: str, kind: type[Any], where: str, default: Any = None
) -> Any:
    """Return a value of a table, or the default.

    Raises:
        ConfigError: If it is of another type, or missing and without a default.

    Example:
        >>> get({"number": 3}, "number", int, "an entry")
        3
    """
    value = table.get(key, default)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        found = "nothing" if value is None else repr(value)
        raise ConfigError(f"`{key}` of {where} should be a {kind.__name__}. Found {found}.")
    return value


def tables_at(table: Mapping[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    """Return the tables of an array such as `[[runs]]`; empty if there is none."""
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ConfigError(f"`{key}` of {where} should be tables, as [[{key}]]. Found {found!r}.")
    return found
