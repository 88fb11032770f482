"""Checks of single JSON values: files may have been damaged or edited by others."""

import math
from collections.abc import Mapping
from typing import Any


class DamageError(ValueError):
    """A value in a run folder is not what it should be."""


class VersionError(ValueError):
    """A line is of a version of the schema that this Unstale does not know."""


def mapping(value: object, what: str) -> Mapping[str, Any]:
    """Return `value` if it is a JSON object; null counts as an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DamageError(f"{what} should be an object. Found {value!r:.60}.")
    return value


def items(value: object, what: str) -> list[Any]:
    """Return `value` if it is a JSON array; null counts as an empty one."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise DamageError(f"{what} should be an array. Found {value!r:.60}.")
    return value


def number(value: object, what: str) -> float | None:
    """Return a finite number; null, NaN and infinities (a diverged model) become None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DamageError(f"{what} should be a number. Found {value!r:.60}.")
    try:
        found = float(value)
    except OverflowError:  # a whole number of hundreds of digits
        raise DamageError(f"{what} should be a number below 1e308. Found more.") from None
    return found if math.isfinite(found) else None


def count(value: object, what: str) -> int:
    """Return a whole number of at least 0; null counts as 0."""
    found = number(value, what)
    if found is None:
        return 0
    if found < 0 or found != int(found):
        raise DamageError(f"{what} should be a whole number of at least 0. Found {value!r:.60}.")
    return int(found)


def whole(value: object, what: str) -> int:
    """Return a whole number of any size and sign, exactly."""
    if type(value) is not int:
        raise DamageError(f"{what} should be a whole number. Found {value!r:.60}.")
    return value


def counts(value: object, what: str) -> dict[str, int]:
    """Return an object of counts."""
    return {key: count(n, f"{what}.{key}") for key, n in mapping(value, what).items()}
