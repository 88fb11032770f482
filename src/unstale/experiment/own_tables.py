"""The tables `[data]` and `[model]` of an experiment: a registered name, or one's own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from unstale import data, models
from unstale.data import Dataset
from unstale.errors import ConfigError, UnknownNameError
from unstale.experiment.importing import split_place
from unstale.experiment.own import Factory, OwnModel
from unstale.experiment.strict import checked_table, fit, known_name


@dataclass(frozen=True, slots=True)
class DataTable:
    """The parsed table `[data]`."""

    name: str
    """The data set's name in the registry, or that of one's own."""
    own: Factory | Dataset | None = None
    """Data of one's own; None for a registered one."""


@dataclass(frozen=True, slots=True)
class ModelTable:
    """The parsed table `[model]`."""

    name: str
    """The model's name in the registry, or that of one's own."""
    own: OwnModel | None = None
    """A model of one's own; None for a registered one."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the model."""
    weights: str | None = None
    """The file of pretrained weights."""
    freeze: tuple[str, ...] = ()
    """Parts that are not trained."""
    fix: bool = False
    """Whether `fix_model` makes it one that conversion can train."""


def parse_data(table: object, folders: tuple[str, ...] = ()) -> DataTable:
    """Return the data of an experiment.

    Args:
        table: The table, or a `Dataset` (from Python only).
        folders: Where a factory's module may lie.

    Raises:
        ConfigError: If a key or value is wrong.
    """
    if isinstance(table, Dataset):
        return DataTable(table.name, table)
    values = dict(checked_table(table, "data"))
    _refuse_given(values, "data")
    factory = _factory(values, "data", folders)
    if factory is not None:
        return DataTable(factory.place, factory)
    for key in values:
        if key != "name":
            raise UnknownNameError("A key of [data]", key, ["name", "factory"])
    return DataTable(known_name(values.get("name"), data.names(), "data.name"))


def parse_model(table: object, folders: tuple[str, ...] = ()) -> ModelTable:
    """Return the model of an experiment.

    Args:
        table: The table, or a model or a function that makes one (from Python only).
        folders: Where a factory's module may lie.

    Raises:
        ConfigError: If a key or value is wrong.
    """
    if not isinstance(table, Mapping) and callable(table):  # modules can be called, too
        return ModelTable(own_name(table), table)
    values = dict(checked_table(table, "model"))
    _refuse_given(values, "model")
    weights = fit(values.pop("weights", None), str | None, "model.weights")
    freeze = fit(values.pop("freeze", ()), tuple[str, ...], "model.freeze")
    fix = fit(values.pop("fix", False), bool, "model.fix")
    factory = _factory(values, "model", folders)
    if factory is not None:
        return ModelTable(factory.place, factory, factory.settings, weights, freeze, fix)
    name = known_name(values.pop("name", None), models.names(), "model.name")
    return ModelTable(name, None, values, weights, freeze, fix)


def own_name(own: object) -> str:
    """Return the name of a model or a function that makes one."""
    kind = type(own) if isinstance(own, nn.Module) else own
    return str(getattr(kind, "__name__", type(own).__name__))


def name_table(name: str, own: object) -> dict[str, Any]:
    """Return how a config says where data or a model comes from."""
    if own is None:
        return {"name": name}
    if isinstance(own, Factory):
        return {"factory": own.place}
    return {"name": name, "given": True}


def _factory(values: dict[str, Any], table: str, folders: tuple[str, ...]) -> Factory | None:
    where = f"{table}.factory"
    if "factory" not in values:
        return None
    if "name" in values:
        raise ConfigError(
            f"[{table}] should have a name or a factory. Found both. Remove one of them."
        )
    place = fit(values.pop("factory"), str, where)
    split_place(place, where)
    return Factory(place, where, values, folders)


def _refuse_given(values: Mapping[str, Any], table: str) -> None:
    if "given" in values:
        raise ConfigError(
            f"[{table}] should name what can be loaded. This config is of a run from Python, "
            f"whose {table} was given as an object. Run that program again, with out= to go on."
        )
