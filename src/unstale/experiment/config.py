"""The configuration of an experiment: one scenario, several methods, several seeds."""

import dataclasses
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unstale import data, models
from unstale.errors import ConfigError, UnknownNameError
from unstale.experiment.old_names import refuse_old_names, renamed_method
from unstale.experiment.strict import build, build_kind, checked_table, fit
from unstale.methods import METHODS, Method, method
from unstale.methods.groups import groups_of, with_enabled
from unstale.run_folder.time_to_target import WINDOW
from unstale.server.checks import Limits
from unstale.server.history import HistorySpec
from unstale.sim import ScenarioSpec, availability, cohort, drift, latency, partition
from unstale.training.local import LocalSpec

# Labels become names of folders and appear on pages.
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=-]{0,63}")


@dataclass(frozen=True, slots=True)
class MethodConfig:
    """One method of an experiment; `label` names it in the results."""

    name: str
    label: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def build(self) -> Method:
        """Return the method with its settings."""
        return method(self.name, **self.settings)


@dataclass(frozen=True, slots=True)
class EvaluateSpec:
    """When and on what the global model is evaluated."""

    every: int = 1
    """Rounds between evaluations; the last round is always evaluated."""
    affected: tuple[int, ...] | None = None
    """The affected classes, whose accuracy is reported; by default those of the latency."""
    target: float = 0.8
    """The affected accuracy to hold: `held_from` is the round from which it does so to the end."""
    window: int = WINDOW
    """Number of rounds over which the affected accuracy is smoothed for `held_from`: the mean over
    the last so many rounds, as far as they were evaluated; 1 does not smooth."""
    reference: str | None = None
    """Label of the method that others are compared with in `rounds_saved`; the first `unweighted`
    if not given."""

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ConfigError(f"`every` should be at least 1. Found {self.every}.")
        if self.window < 1:
            raise ConfigError(f"`window` should be at least 1. Found {self.window}.")
        if not 0 < self.target <= 1:
            raise ConfigError(f"`target` should be in (0, 1]. Found {self.target}.")


@dataclass(frozen=True, slots=True)
class ExperimentConfig:
    """A whole experiment, with all defaults filled in."""

    name: str
    rounds: int
    seeds: tuple[int, ...]
    data: str
    model: str
    methods: tuple[MethodConfig, ...]
    title: str = ""
    description: str = ""
    model_settings: Mapping[str, Any] = field(default_factory=dict)
    local: LocalSpec = field(default_factory=LocalSpec)
    scenario: ScenarioSpec = field(default_factory=ScenarioSpec)
    evaluate: EvaluateSpec = field(default_factory=EvaluateSpec)
    history: HistorySpec = field(default_factory=HistorySpec)
    limits: Limits = field(default_factory=Limits)
    oracle: bool = False
    """Whether to report how far updates are from those that clients would send without delay."""
    threads: int | None = None
    """CPU threads; torch's default if not given. The last bits of results depend on it."""

    def to_json(self) -> dict[str, Any]:
        """Return the resolved config as a table that `parse` reads back."""
        scenario = self.scenario
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "rounds": self.rounds,
            "seeds": list(self.seeds),
            "overlap": scenario.overlap,
            "oracle": self.oracle,
            "threads": self.threads,
            "data": {"name": self.data},
            "model": {"name": self.model, **self.model_settings},
            "local": dataclasses.asdict(self.local),
            **{
                key: {"kind": _kind_of(kinds, getattr(scenario, key)), **_table(scenario, key)}
                for key, (kinds, _) in _KINDS.items()
            },
            "evaluate": dataclasses.asdict(self.evaluate),
            "history": dataclasses.asdict(self.history),
            "limits": dataclasses.asdict(self.limits),
            "methods": [{"name": m.name, "label": m.label, **m.settings} for m in self.methods],
        }


# The parts of a scenario: their kinds by name, and the default kind.
_KINDS: dict[str, tuple[Mapping[str, type[Any]], str]] = {
    "partition": (partition.KINDS, "dirichlet"),
    "latency": (latency.KINDS, "intertwined"),
    "cohort": (cohort.KINDS, "all"),
    "availability": (availability.KINDS, "always"),
    "drift": (drift.KINDS, "none"),
}
_TOP = {"name", "title", "description", "rounds", "seeds", "overlap", "oracle", "threads"}
_TABLES = {"data", "model", "local", "evaluate", "history", "limits", "methods", *_KINDS}


def parse(table: Mapping[str, Any]) -> ExperimentConfig:
    """Return the experiment that a table (from TOML or JSON) describes.

    Raises:
        ConfigError: If a key or value is wrong; for an unknown key the message suggests the
            nearest one.
    """
    for key in table:
        if key not in _TOP | _TABLES:
            raise UnknownNameError("A key of the experiment", key, _TOP | _TABLES)
    data_table = checked_table(table.get("data", {}), "data")
    for key in data_table:
        if key != "name":
            raise UnknownNameError("A key of [data]", key, ["name"])
    model_table = dict(checked_table(table.get("model", {}), "model"))
    scenario = ScenarioSpec(
        **{
            k: build_kind(kinds, table.get(k, {}), k, default)
            for k, (kinds, default) in _KINDS.items()
        },
        overlap=_typed(table, "overlap", bool, False),
    )
    methods = _methods(table.get("methods"))
    evaluate = build(EvaluateSpec, table.get("evaluate", {}), "evaluate")
    labels = [m.label for m in methods]
    if evaluate.reference is not None and evaluate.reference not in labels:
        raise UnknownNameError("`evaluate.reference`", evaluate.reference, labels)
    return ExperimentConfig(
        name=_label(_typed(table, "name", str, None), "name"),
        title=_typed(table, "title", str, ""),
        description=_typed(table, "description", str, ""),
        rounds=_positive(_typed(table, "rounds", int, None), "rounds"),
        seeds=_seeds(table.get("seeds", [0])),
        data=_known(data_table.get("name"), data.names(), "data.name"),
        model=_known(model_table.pop("name", None), models.names(), "model.name"),
        model_settings=model_table,
        methods=methods,
        local=build(LocalSpec, table.get("local", {}), "local"),
        scenario=scenario,
        evaluate=evaluate,
        history=build(HistorySpec, table.get("history", {}), "history"),
        limits=build(Limits, table.get("limits", {}), "limits"),
        oracle=_typed(table, "oracle", bool, False),
        threads=_threads(table.get("threads")),
    )


def _typed(table: Mapping[str, Any], key: str, kind: type, default: Any) -> Any:
    if key in table:
        return fit(table[key], kind, key)
    if default is None:
        raise ConfigError(f"`{key}` should be given. Found nothing. Add {key} = ….")
    return default


def _threads(value: object) -> int | None:
    return None if value is None else _positive(fit(value, int, "threads"), "threads")


def _positive(value: int, where: str) -> int:
    if value < 1:
        raise ConfigError(f"`{where}` should be at least 1. Found {value}.")
    return value


def _label(value: str, where: str) -> str:
    if not LABEL.fullmatch(value):
        raise ConfigError(
            f"`{where}` should be 1 to 64 letters, digits or any of . _ + = -, and begin with a "
            f"letter or digit. Found {value!r}."
        )
    return value


def _known(value: object, known: tuple[str, ...], where: str) -> str:
    if value is None:
        raise ConfigError(f"`{where}` should be one of: {', '.join(known)}. Found nothing.")
    if not isinstance(value, str) or value not in known:
        raise UnknownNameError(f"`{where}`", str(value), known)
    return value


def _seeds(value: object) -> tuple[int, ...]:
    ok = isinstance(value, list) and value and all(type(s) is int and s >= 0 for s in value)
    if not ok or len(set(value)) != len(value):  # type: ignore[call-overload,arg-type]
        raise ConfigError(
            f"`seeds` should be a list of different whole numbers of at least 0. Found {value!r}."
        )
    return tuple(value)  # type: ignore[arg-type]


def _methods(value: object) -> tuple[MethodConfig, ...]:
    if not isinstance(value, list) or not value:
        raise ConfigError("`methods` should be a list of at least one [[methods]] table.")
    found: list[MethodConfig] = []
    for i, item in enumerate(value):
        table = {"name": item} if isinstance(item, str) else dict(checked_table(item, "methods"))
        _refuse_old_names(table, f"methods[{i}]")
        name = _known(table.pop("name", None), tuple(METHODS), f"methods[{i}].name")
        label = fit(table.pop("label", name), str, f"methods[{i}].label")
        label = _label(label, f"methods[{i}].label")
        config = MethodConfig(name, label, _settings(name, table, f"methods[{i}]"))
        config.build()  # finds wrong settings before any method runs
        if any(other.label.lower() == label.lower() for other in found):
            raise ConfigError(
                f"Every method should have a label of its own. Found '{label}' twice. "
                'Give one of them label = "…".'
            )
        found.append(config)
    return tuple(found)


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
        if key in groups:
            own = typing.get_type_hints(groups[key])
            inner = checked_table(with_enabled(groups[key], value), place)
            found[key] = _typed_table(inner, own, place)
        else:
            found |= _typed_table({key: value}, hints, where)
    return found


def _typed_table(table: Mapping[str, Any], hints: Mapping[str, Any], where: str) -> dict[str, Any]:
    return {
        key: fit(value, hints[key], f"{where}.{key}") if key in hints else value
        for key, value in table.items()
    }


def _kind_of(kinds: Mapping[str, type[Any]], part: object) -> str:
    return next(name for name, cls in kinds.items() if type(part) is cls)


def _table(scenario: ScenarioSpec, key: str) -> dict[str, Any]:
    return dataclasses.asdict(getattr(scenario, key))
