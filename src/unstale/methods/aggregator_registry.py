"""Aggregators by name, for the setting `aggregator` that every method with FedAvg takes.

    method("convert", aggregator="median")
    method("convert", aggregator={"name": "norm_bound", "factor": 2.0, "then": "trimmed_mean"})

In an experiment file it is a text or a table as well. Methods that are defined by how they
aggregate (`asyn_tiers`, `fedat`) do not take it.
"""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from unstale.errors import ConfigError, UnknownNameError
from unstale.lazy import load_named
from unstale.methods.groups import make_part

if TYPE_CHECKING:
    from unstale.methods.base import Aggregator

_FOLDER = "unstale.methods.aggregate"


@dataclasses.dataclass(frozen=True, slots=True)
class AggregatorSpec:
    """How a named aggregator is made, and how it is described."""

    does: str
    """One line for tables and `unstale methods`."""
    paper: str
    """Where it was published."""
    where: str
    """The class, as `"package.module:Class"`; it is imported when it is needed."""

    @property
    def aggregator(self) -> type[Any]:
        """The class."""
        found: type[Any] = load_named(self.where)
        return found


AGGREGATORS: dict[str, AggregatorSpec] = {
    "fedavg": AggregatorSpec(
        "The mean by examples; the default.", "McMahan et al. 2017 (FedAvg)", f"{_FOLDER}:FedAvg"
    ),
    "median": AggregatorSpec(
        "The median of every coordinate.", "Yin et al. 2018", f"{_FOLDER}:Median"
    ),
    "trimmed_mean": AggregatorSpec(
        "The mean of every coordinate without its extremes.",
        "Yin et al. 2018",
        f"{_FOLDER}:TrimmedMean",
    ),
    "krum": AggregatorSpec(
        "The one update that is nearest to most others.", "Blanchard et al. 2017", f"{_FOLDER}:Krum"
    ),
    "multi_krum": AggregatorSpec(
        "The mean of the updates that are nearest to most others.",
        "Blanchard et al. 2017",
        f"{_FOLDER}:MultiKrum",
    ),
    "norm_bound": AggregatorSpec(
        "Shortens updates to a multiple of the round's median norm, then another aggregator.",
        "after Sun et al. 2019",
        f"{_FOLDER}:NormBound",
    ),
    "direction_bound": AggregatorSpec(
        "Leaves out updates that point away from the round's direction, then another aggregator.",
        "after Cao et al. 2021 (FLTrust)",
        f"{_FOLDER}:DirectionBound",
    ),
}


def aggregator(name: str, **settings: Any) -> "Aggregator":
    """Return the aggregator of that name with the given settings.

    Raises:
        UnknownNameError: If there is no such aggregator or setting; names the nearest.

    Example:
        >>> aggregator("trimmed_mean", share=0.1)
        TrimmedMean(share=0.1)
    """
    if name not in AGGREGATORS:
        raise UnknownNameError("An aggregator", str(name), AGGREGATORS)
    cls = AGGREGATORS[name].aggregator
    known = [field.name for field in dataclasses.fields(cls)]
    for key in settings:
        if key not in known:
            raise UnknownNameError(f"A setting of aggregator '{name}'", key, known)
    made: Aggregator = make_part(cls, settings, name)
    return made


def as_aggregator(value: "str | Mapping[str, Any] | Aggregator") -> "Aggregator":
    """Return an aggregator: as it is, by its name, or from a table with `name` and settings.

    Example:
        >>> as_aggregator({"name": "krum", "share": 0.1})
        Krum(share=0.1, few='use')
    """
    from unstale.methods.base import Aggregator, Compensator

    if isinstance(value, str):
        return aggregator(value)
    if isinstance(value, Mapping):
        settings = dict(value)
        name = settings.pop("name", None)
        if not isinstance(name, str):
            raise ConfigError(
                "A table of an aggregator should have its `name`, one of: "
                f"{', '.join(AGGREGATORS)}. Found {dict(value)!r}."
            )
        return aggregator(name, **settings)
    # A compensator has the same two methods, and `lookback` besides.
    if not isinstance(value, Aggregator) or isinstance(value, Compensator | type):
        raise ConfigError(
            "`aggregator` should be a name, a table with `name` and settings, or an aggregator "
            f"such as `Median()`. Found {value!r}."
        )
    return value
