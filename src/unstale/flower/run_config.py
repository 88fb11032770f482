"""The settings of a server on Flower, written down in the form of the simulator's."""

import dataclasses
import math
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import PurePath
from typing import Any

from unstale.errors import RunError
from unstale.methods.server_optimizer_registry import optimizer_tables
from unstale.run_folder import RunFolder
from unstale.server import ServerSettings

ENGINE = "flower"


def resolved_config(
    name: str, config: Mapping[str, Any], method: dict[str, Any], seed: int
) -> dict[str, Any]:
    """Return all settings, with the simulator's keys where they mean the same."""
    given = dict(config)
    evaluate = {"target": None, **(given.pop("evaluate", None) or {})}
    return {
        "name": name,
        "engine": ENGINE,
        "rounds": 0,
        **given,
        "seeds": [seed],
        "evaluate": evaluate,
        "methods": [method],
    }


def server_config(settings: ServerSettings) -> dict[str, Any]:
    """Return what is written down of the server's settings, beside method and seed."""
    return {
        "local": settings.local,
        "history": settings.history,
        "limits": settings.limits,
        "inputs": settings.inputs,
        "storage": settings.storage,
        **optimizer_tables(settings.chosen_optimizer),
    }


def changed_settings(folder: RunFolder, config: Mapping[str, Any]) -> list[str]:
    """Return which settings differ from those that the run of a folder began with.

    A deadline may change, or the number of rounds. Method and seed may not.

    Raises:
        RunError: If they do, or if another engine ran here.
    """
    found = folder.read_json(folder.config_path)
    before = found if isinstance(found, dict) else {}
    for what, of in (("engine", _engine_of), ("method", _label_of), ("seed", _seed_of)):
        if of(before) != of(config):
            raise RunError(
                f"A run should go on with the {what} it began with, {of(before)!r}. Found "
                f"{of(config)!r}. Use the same, or choose another folder than {folder.path}."
            )
    return sorted(key for key in {*before, *config} if before.get(key) != config.get(key))


def _engine_of(config: Mapping[str, Any]) -> Any:
    return config.get("engine", "simulator")


def _label_of(config: Mapping[str, Any]) -> Any:
    return [method.get("label") for method in config.get("methods") or []]


def _seed_of(config: Mapping[str, Any]) -> Any:
    return config.get("seeds")


def version_of(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def as_json(value: Any) -> Any:
    """Return settings as JSON values: records by field, functions and other objects by name.

    Example:
        >>> as_json({"betas": (0.9, 0.99), "loss": math.sqrt, "limit": math.inf})
        {'betas': [0.9, 0.99], 'loss': 'sqrt', 'limit': 'inf'}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: as_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(item) for item in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, PurePath):
        return str(value)
    return getattr(value, "__name__", type(value).__name__)
