"""The configuration of an experiment: one scenario, several methods, several seeds."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unstale import data
from unstale.data import Dataset
from unstale.errors import ConfigError, UnknownNameError
from unstale.experiment.method_config import MethodConfig, checked_label, parse_methods
from unstale.experiment.optimizer_table import parse_optimizer
from unstale.experiment.other_local import OtherLocal
from unstale.experiment.own import Factory, OwnModel
from unstale.experiment.own_tables import name_table, parse_data, parse_model
from unstale.experiment.scenario_tables import KINDS, parse_scenario, scenario_tables
from unstale.experiment.strict import build, fit, known_name
from unstale.experiment.tuning.plan import check_plan
from unstale.experiment.tuning.spec import TuningSpec
from unstale.methods import Plain, ServerOptimizer
from unstale.methods.server_optimizer_registry import optimizer_tables
from unstale.privacy import Protection, Storage
from unstale.run_folder.time_to_target import WINDOW
from unstale.server.checks import Limits
from unstale.server.history import HistorySpec
from unstale.server.settings import ServerSettings
from unstale.sim import ScenarioSpec, drift
from unstale.training.local import LocalSpec


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
    weights: str | None = None
    """The file of pretrained weights: absolute, or relative to a data root; None for none."""
    freeze: tuple[str, ...] = ()
    """Parts of the model that are not trained, by the names of their modules."""
    fix: bool = False
    """Whether `fix_model` makes the model one that conversion can train, weights loaded."""
    own_data: Factory | Dataset | None = None
    """Data of one's own, which `data` then only names; None for a registered data set."""
    own_model: OwnModel | None = None
    """A model of one's own, which `model` then only names; None for a registered one."""
    plugins: tuple[str, ...] = ()
    """Python files that register methods, data sets or models; other processes load them, too."""
    local: LocalSpec = field(default_factory=LocalSpec)
    other_local: OtherLocal | None = None
    """Clients that train by another recipe than `local`; None for none."""
    scenario: ScenarioSpec = field(default_factory=ScenarioSpec)
    evaluate: EvaluateSpec = field(default_factory=EvaluateSpec)
    history: HistorySpec = field(default_factory=HistorySpec)
    limits: Limits = field(default_factory=Limits)
    protection: Protection = field(default_factory=Protection)
    """What every client does to its update before it sends it."""
    storage: Storage = field(default_factory=Storage)
    """What is written to the disk of single clients."""
    optimizer: ServerOptimizer = field(default_factory=Plain)
    """How the server moves the weights by what was aggregated, with every method."""
    oracle: bool = False
    """Whether to report how far updates are from those that clients would send without delay."""
    threads: int | None = None
    """CPU threads of each process; 1 if not given. The last bits of results depend on it."""
    tuning: TuningSpec | None = None
    """How settings are chosen; None if no method lists any and the file does not say."""

    def __post_init__(self) -> None:
        for method in self.methods:  # one that makes the model itself goes with plain only
            _ = ServerSettings(method.build(), optimizer=self.optimizer).chosen_optimizer

    @property
    def tunable(self) -> tuple[MethodConfig, ...]:
        """The methods that list settings to try."""
        return tuple(method for method in self.methods if method.tune is not None)

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
            "data": self._data_table(),
            "model": self._model_table(),
            "local": dataclasses.asdict(self.local),
            **({} if self.other_local is None else {"other_local": self.other_local.to_json()}),
            **scenario_tables(scenario),
            "evaluate": dataclasses.asdict(self.evaluate),
            "history": dataclasses.asdict(self.history),
            "limits": dataclasses.asdict(self.limits),
            # Only where they are set: runs from before they were there can be resumed and compared.
            **_unless_default("protection", self.protection),
            **_unless_default("storage", self.storage),
            **optimizer_tables(self.optimizer),
            **({} if self.tuning is None else {"tuning": dataclasses.asdict(self.tuning)}),
            "methods": [method.to_json() for method in self.methods],
        }

    def _data_table(self) -> dict[str, Any]:
        settings = self.own_data.settings if isinstance(self.own_data, Factory) else {}
        return {**name_table(self.data, self.own_data), **settings}

    def _model_table(self) -> dict[str, Any]:
        changes = {"weights": self.weights, "freeze": list(self.freeze), "fix": self.fix}
        given = {key: value for key, value in changes.items() if value}
        return {**name_table(self.model, self.own_model), **self.model_settings, **given}


_TOP = {"name", "title", "description", "rounds", "seeds", "overlap", "oracle", "threads"}
_TABLES = {"data", "model", "local", "other_local", "evaluate", "history", "limits"}
_TABLES |= {"protection", "storage", "optimizer", "tuning", "methods", *KINDS}


def parse(table: Mapping[str, Any], folder: str | None = None) -> ExperimentConfig:
    """Return the experiment that a table describes: from TOML, from JSON, or from Python.

    A table from Python may hold objects: a `Dataset` as `data`, a model or a function that makes
    one as `model`, parts of the scenario of the user's own, and methods as `MethodConfig`.

    Args:
        table: The tables and keys of an experiment file.
        folder: The folder of the file, from which functions that it names are imported.

    Raises:
        ConfigError: If a key or value is wrong; for an unknown key the message suggests the
            nearest one.
    """
    for key in table:
        if key not in _TOP | _TABLES:
            raise UnknownNameError("A key of the experiment", key, _TOP | _TABLES)
    folders = () if folder is None else (folder,)
    data_table = parse_data(table.get("data", {}), folders)
    model_table = parse_model(table.get("model", {}), folders)
    scenario = parse_scenario(table, overlap=_typed(table, "overlap", bool, False))
    if isinstance(scenario.drift, drift.LookDrift):
        known_name(scenario.drift.to, data.names(), "drift.to")
    local = build(LocalSpec, table.get("local", {}), "local")
    seeds = _seeds(table.get("seeds", [0]))
    methods = parse_methods(table.get("methods"))
    evaluate = build(EvaluateSpec, table.get("evaluate", {}), "evaluate")
    labels = [m.label for m in methods]
    if evaluate.reference is not None and evaluate.reference not in labels:
        raise UnknownNameError("`evaluate.reference`", evaluate.reference, labels)
    return ExperimentConfig(
        name=checked_label(_typed(table, "name", str, None), "name"),
        title=_typed(table, "title", str, ""),
        description=_typed(table, "description", str, ""),
        rounds=_positive(_typed(table, "rounds", int, None), "rounds"),
        seeds=seeds,
        data=data_table.name,
        own_data=data_table.own,
        model=model_table.name,
        own_model=model_table.own,
        model_settings=model_table.settings,
        weights=model_table.weights,
        freeze=model_table.freeze,
        fix=model_table.fix,
        methods=methods,
        local=local,
        other_local=OtherLocal.parse(table.get("other_local"), local),
        scenario=scenario,
        evaluate=evaluate,
        history=build(HistorySpec, table.get("history", {}), "history"),
        limits=build(Limits, table.get("limits", {}), "limits"),
        protection=build(Protection, table.get("protection", {}), "protection"),
        storage=build(Storage, table.get("storage", {}), "storage"),
        optimizer=parse_optimizer(table.get("optimizer")),
        oracle=_typed(table, "oracle", bool, False),
        threads=_threads(table.get("threads")),
        tuning=_tuning(table, methods, seeds),
    )


def _tuning(
    table: Mapping[str, Any], methods: tuple[MethodConfig, ...], seeds: tuple[int, ...]
) -> TuningSpec | None:
    wanted = any(method.tune is not None for method in methods)
    if not wanted and "tuning" not in table:
        return None
    spec = build(TuningSpec, table.get("tuning", {}), "tuning")
    if wanted:
        check_plan(methods, spec, seeds)
    return spec


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


def _seeds(value: object) -> tuple[int, ...]:
    ok = isinstance(value, list) and value and all(type(s) is int and s >= 0 for s in value)
    if not ok or len(set(value)) != len(value):  # type: ignore[call-overload,arg-type]
        raise ConfigError(
            f"`seeds` should be a list of different whole numbers of at least 0. Found {value!r}."
        )
    return tuple(value)  # type: ignore[arg-type]


def _unless_default(key: str, settings: Protection | Storage) -> dict[str, Any]:
    return {} if settings == type(settings)() else {key: dataclasses.asdict(settings)}
