"""A tuning in words, for the terminal and the report page alike."""

import json
from collections.abc import Mapping, Sequence
from typing import Any


def settings_in_words(settings: Mapping[str, Any] | None) -> str:
    """Return settings as they could stand in a file.

    Example:
        >>> settings_in_words({"lam": 5.0, "inversion.start": "grey"})
        'lam = 5, inversion.start = "grey"'
        >>> settings_in_words({})
        'its own settings'
    """
    if not settings:
        return "its own settings"
    return ", ".join(f"{key} = {value_in_words(value)}" for key, value in settings.items())


def value_in_words(value: Any) -> str:
    """Return one value as it could stand in a file; a table or a list as JSON has it."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return json.dumps(value, ensure_ascii=False, default=str)


def extent_in_words(tries: int, size: int, budget: int) -> str:
    """Say how many of a method's settings are tried, and where the budget was not met.

    Example:
        >>> extent_in_words(3, 12, 3), extent_in_words(2, 2, 3), extent_in_words(3, 3, 3)
        ('3 of 12, drawn at random', 'all 2, fewer than the budget of 3', 'all 3')
    """
    if tries < size:
        return f"{tries} of {size:,}, drawn at random"
    return f"all {tries}" + (f", fewer than the budget of {budget}" if tries < budget else "")


def seeds_in_words(seeds: Sequence[int]) -> str:
    """Return "seed 3" or "seeds 0, 1"."""
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
