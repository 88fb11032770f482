"""The tables `[[methods]]` of an experiment: name, label, settings, and what tuning may try."""

import dataclasses
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unstale.errors import ConfigError
from unstale.experiment.old_names import refuse_old_names, renamed_method
from unstale.experiment.strict import checked_table, fit, known_name
from unstale.experiment.tuning.candidates import Candidates, Settings, parse_candidates
from unstale.methods import AGGREGATORS, METHODS, Method, method
from unstale.methods.groups import groups_of, merged, with_enabled

# Labels become names of folders and appear on pages.
LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._+=-]{0,62}[A-Za-z0-9_+=-])?")
# Devices on Windows, also with an ending.
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MethodConfig:
    """One method of an experiment; `label` names it in the results."""

    name: str
    label: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    tune: Candidates | None = None
    """The settings that tuning may try; None for a method that is not tuned."""
    given: Method | None = None
    """The method itself, where it was given in Python and has no name to be made by."""

    def build(self) -> Method:
        """Return the method with its settings."""
        return method(self.name, **self.settings) if self.given is None else self.given

    def with_settings(self, settings: Settings, where: str = "") -> "MethodConfig":
        """Return the method with some settings replaced, and nothing left to tune.

        Args:
            settings: Values by dotted key.
            where: Where they stand in the file, for messages; the label if not given.

        Example:
            >>> tuned = MethodConfig("convert", "c").with_settings({"inversion.sparsity": 0.9})
            >>> tuned.settings
            {'inversion': {'sparsity': 0.9}}
        """
        result = dict(self.settings)
        for key, value in settings.items():
            nested: Any = value
            for part in reversed(key.split(".")):
                nested = {part: nested}
            result = merged(result, _settings(self.name, nested, where or self.label))
        return dataclasses.replace(self, settings=result, tune=None)

    def to_json(self) -> dict[str, Any]:
        """Return the table that `parse_methods` reads back; not of a method that was given."""
        if self.given is not None:
            given = f"{self.given.compensator!r}, {self.given.aggregator!r}"
            return {"name": self.name, "label": self.label, "given": given}
        tune = {} if self.tune is None else {"tune": self.tune.to_json()}
        return {"name": self.name, "label": self.label, **self.settings, **tune}


def parse_methods(value: object) -> tuple[MethodConfig, ...]:
    """Return the methods of an experiment, each of which can be built.

    Raises:
        ConfigError: If there is none, or one of them is wrong.
    """
    if not isinstance(value, list) or not value:
        raise ConfigError("`methods` should be a list of at least one [[methods]] table.")
    found: list[MethodConfig] = []
    for i, item in enumerate(value):
        where = f"methods[{i}]"
        if isinstance(item, MethodConfig):
            _add(found, item, where)
            continue
        table = {"name": item} if isinstance(item, str) else dict(checked_table(item, "methods"))
        tune = table.pop("tune", None)
        _refuse_old_names(table, where)
        name = known_name(table.pop("name", None), tuple(METHODS), f"{where}.name")
        label = fit(table.pop("label", name), str, f"{where}.label")
        config = MethodConfig(
            name,
            label,
            _settings(name, table, where),
            None if tune is None else parse_candidates(tune, f"{where}.tune"),
        )
        config.build()  # finds wrong settings before any method runs
        _add(found, config, where)
    return tuple(found)


def _add(found: list[MethodConfig], config: MethodConfig, where: str) -> None:
    """Add a method, or raise ConfigError if its label is wrong or taken."""
    label = checked_label(config.label, f"{where}.label")
    if any(other.label.lower() == label.lower() for other in found):
        raise ConfigError(
            f"Every method should have a label of its own. Found '{label}' twice. "
            'Give one of them label = "…".'
        )
    found.append(config)


def checked_label(value: str, where: str) -> str:
    """Return `value`, or raise ConfigError if it cannot name a folder everywhere."""
    if not LABEL.fullmatch(value):
        raise ConfigError(
            f"`{where}` should be 1 to 64 letters, digits or any of . _ + = -, begin with a letter "
            f"or digit and not end with a dot. Found {value!r}."
        )
    if _DEVICE.fullmatch(value):
        raise ConfigError(
            f"`{where}` should name a folder on every system. Found {value!r}, which is a device "
            "on Windows. Choose another one."
        )
    return value


def _refuse_old_names(table: Mapping[str, Any], where: str) -> None:
    name = table.get("name")
    # Somebody may have registered a method under a name that once was ours.
    if isinstance(name, str) and (name not in METHODS or renamed_method(name) is None):
        settings = {key: value for key, value in table.items() if key != "name"}
        refuse_old_names(name, settings, where)


def _settings(name: str, table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a method's settings in the types of their fields; `build` refuses unknown ones."""
    spec = METHODS[name]
    parts: tuple[type[Any], ...] = (spec.aggregator, spec.compensator)
    hints = {key: hint for part in parts for key, hint in typing.get_type_hints(part).items()}
    groups = {key: group for part in parts for key, group in groups_of(part).items()}
    found: dict[str, Any] = {}
    for key, value in table.items():
        place = f"{where}.{key}"
        if key == "aggregator" and spec.takes_aggregator:
            found[key] = _aggregator(value, place)
        elif key in groups:
            own = typing.get_type_hints(groups[key])
            inner = checked_table(with_enabled(groups[key], value), place)
            found[key] = _typed_table(inner, own, place)
        else:
            found |= _typed_table({key: value}, hints, where)
    return found


def _aggregator(value: object, where: str) -> object:
    """Return an aggregator's name, or its table with settings in the types of their fields."""
    if isinstance(value, str):
        return value
    table = dict(checked_table(value, where))
    name = known_name(table.pop("name", None), tuple(AGGREGATORS), f"{where}.name")
    hints = typing.get_type_hints(AGGREGATORS[name].cls)
    then = {"then": _aggregator(table.pop("then"), f"{where}.then")} if "then" in table else {}
    return {"name": name, **_typed_table(table, hints, where), **then}


def _typed_table(table: Mapping[str, Any], hints: Mapping[str, Any], where: str) -> dict[str, Any]:
    return {
        key: fit(value, hints[key], f"{where}.{key}") if key in hints else value
        for key, value in table.items()
    }
