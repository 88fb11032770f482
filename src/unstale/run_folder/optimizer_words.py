"""The server optimizer of a run in words, as the report page shows it."""

from collections.abc import Mapping
from typing import Any


def optimizer_in_words(table: Mapping[str, Any]) -> str:
    """Return a server optimizer and its settings; empty for the plain one.

    Args:
        table: The table `optimizer` of a config.

    Example:
        >>> optimizer_in_words({"name": "fedavgm", "lr": 0.5, "momentum": 0.9})
        'fedavgm, lr 0.5, momentum 0.9'
        >>> optimizer_in_words({"name": "given", "is": "Mine(lr=1)"})
        'Mine(lr=1)'
    """
    settings = dict(table)
    name = settings.pop("name", "plain")
    if name in ("plain", "given"):
        return str(settings.get("is", ""))
    told = [f"{key} {value}" for key, value in settings.items() if value is not None]
    return ", ".join([str(name), *told])
