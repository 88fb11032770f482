"""Names that experiment files used before a method or a setting was renamed.

An old name is an error that shows the table as it should be written today. Nothing is
translated silently: a file should say what it runs.
"""

import json
from collections.abc import Mapping
from typing import Any

from unstale.errors import ConfigError

METHODS: dict[str, str] = {"unstale": "no_delay", "invert": "convert"}
"""Old method name -> the name of today."""

_INVERSION = (
    "sample_share", "min_samples", "max_samples", "iterations", "warm_iterations", "good_loss",
    "objective", "optimizer", "lr", "label_lr", "warm_lr", "schedule", "start", "noise", "bounded",
    "sparsity", "history", "tv", "patience", "tolerance", "restart_loss", "max_loss", "residual",
    "max_seconds", "at_once",
)  # fmt: skip

CONVERT_SETTINGS: dict[str, str] = {
    **{name: f"inversion.{name}" for name in _INVERSION},
    "good_after": "inversion.warm_min_iterations",
    "full_step_loss": "inversion.shrink_steps_below",
    "cuts": "inversion.max_lr_cuts",
    "unique": "uniqueness.enabled",
    "unique_threshold": "uniqueness.threshold",
    "unique_unknown": "uniqueness.unknown",
    "unique_rule": "uniqueness.rule",
    "switch": "switching.enabled",
    "switch_window": "switching.window",
    "switch_disparity": "switching.disparity",
    "switch_patience": "switching.patience",
    "switch_keep": "switching.keep",
    "switch_slack": "switching.match_window",
    "max_conversions": "budget.max_conversions",
    "round_seconds": "budget.round_seconds",
    "max_clients": "budget.max_clients",
}
"""Old setting of `invert`, all in one table -> group and setting of `convert`."""


def renamed_method(name: str) -> str | None:
    """Return what a method is called today, or None if the name is not an old one.

    Example:
        >>> renamed_method("invert"), renamed_method("convert")
        ('convert', None)
    """
    return METHODS.get(name)


def renamed_setting(method: str, key: str) -> str | None:
    """Return where a setting of a method is today, or None if the key is not an old one.

    Args:
        method: The method by its old name or today's.
        key: The setting; with its group where the file has one, as `inversion.cuts`.

    Example:
        >>> renamed_setting("invert", "switch_slack")
        'switching.match_window'
        >>> renamed_setting("convert", "inversion.cuts")
        'inversion.max_lr_cuts'
        >>> renamed_setting("convert", "warm_start") is None
        True
    """
    if (renamed_method(method) or method) != "convert":
        return None
    group, _, setting = key.rpartition(".")
    today = CONVERT_SETTINGS.get(setting)
    # Within its group a setting is old only if its own name is: `switching.patience` is not.
    if today is None or (group and today.rpartition(".")[2] == setting):
        return None
    return today


def refuse_old_names(method: str, settings: Mapping[str, Any], where: str) -> None:
    """Raise if a method's table uses an old name; say how to write it today.

    Args:
        method: The method's name as the file has it.
        settings: What stands beside the name, groups as tables in it.
        where: Where the table is in the file, such as `methods[0]`.

    Raises:
        ConfigError: Names every old name and shows the whole table with today's names.

    Example:
        >>> refuse_old_names("invert", {"label": "dense", "sparsity": 0.0}, "methods[0]")
        Traceback (most recent call last):
        ...
        unstale.errors.ConfigError: `methods[0]` should use the names of today. Found method \
'invert', now 'convert'; setting `sparsity`, now `inversion.sparsity`. Write instead:
        <BLANKLINE>
        [[methods]]
        name = "convert"
        label = "dense"
        [methods.inversion]
        sparsity = 0.0
    """
    found: list[str] = []
    name = renamed_method(method)
    if name is not None:
        found.append(f"method '{method}', now '{name}'")
    top: dict[str, Any] = {"name": name or method}
    groups: dict[str, dict[str, Any]] = {}
    for key, value in _flat(settings):
        today = renamed_setting(method, key)
        if today is not None:
            found.append(f"setting `{key}`, now `{today}`")
        group, _, setting = (today or key).rpartition(".")
        target = groups.setdefault(group, {}) if group else top
        target[setting] = value
    if found:
        raise ConfigError(
            f"`{where}` should use the names of today. Found {'; '.join(found)}. "
            f"Write instead:\n\n{_toml(top, groups)}"
        )


def _flat(settings: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return settings with those of groups as `group.setting`."""
    flat: list[tuple[str, Any]] = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat += [(f"{key}.{inner}", v) for inner, v in value.items()]
        else:
            flat.append((key, value))
    return flat


def _toml(top: Mapping[str, Any], groups: Mapping[str, Mapping[str, Any]]) -> str:
    lines = ["[[methods]]", *(f"{key} = {_value(v)}" for key, v in top.items())]
    for group, table in groups.items():
        lines += [f"[methods.{group}]", *(f"{key} = {_value(v)}" for key, v in table.items())]
    return "\n".join(lines)


def _value(value: object) -> str:
    """Return a value as TOML; JSON's form of a text, number or truth value is also TOML's."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool | int | str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)  # floats: `inf` and `nan` are TOML, and not JSON
