"""Aggregators by name, for the setting `aggregator` that every method with FedAvg takes.

    method("convert", aggregator="median")
    method("convert", aggregator={"name": "norm_bound", "factor": 2.0, "then": "trimmed_mean"})

In an experiment file it is a text or a table as well. Methods that are defined by how they
aggregate (`asyn_tiers`, `fedat`) do not take it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from unstale.methods.named_parts import NamedPart, NamedParts

if TYPE_CHECKING:
    from unstale.methods.base import Aggregator

_FOLDER = "unstale.methods.aggregate"

AGGREGATORS: dict[str, NamedPart] = {
    "fedavg": NamedPart(
        "The mean by examples; the default.", "McMahan et al. 2017 (FedAvg)", f"{_FOLDER}:FedAvg"
    ),
    "median": NamedPart("The median of every coordinate.", "Yin et al. 2018", f"{_FOLDER}:Median"),
    "trimmed_mean": NamedPart(
        "The mean of every coordinate without its extremes.",
        "Yin et al. 2018",
        f"{_FOLDER}:TrimmedMean",
    ),
    "krum": NamedPart(
        "The one update that is nearest to most others.", "Blanchard et al. 2017", f"{_FOLDER}:Krum"
    ),
    "multi_krum": NamedPart(
        "The mean of the updates that are nearest to most others.",
        "Blanchard et al. 2017",
        f"{_FOLDER}:MultiKrum",
    ),
    "norm_bound": NamedPart(
        "Shortens updates to a multiple of the round's median norm, then another aggregator.",
        "after Sun et al. 2019",
        f"{_FOLDER}:NormBound",
    ),
    "direction_bound": NamedPart(
        "Leaves out updates that point away from the round's direction, then another aggregator.",
        "after Cao et al. 2021 (FLTrust)",
        f"{_FOLDER}:DirectionBound",
    ),
}
_PARTS = NamedParts("aggregator", AGGREGATORS, "Median()")


def aggregator(name: str, **settings: Any) -> "Aggregator":
    """Return the aggregator of that name with the given settings.

    Raises:
        UnknownNameError: If there is no such aggregator or setting; names the nearest.

    Example:
        >>> aggregator("trimmed_mean", share=0.1)
        TrimmedMean(share=0.1)
    """
    made: Aggregator = _PARTS.named(name, settings)
    return made


def as_aggregator(value: "str | Mapping[str, Any] | Aggregator") -> "Aggregator":
    """Return an aggregator: as it is, by its name, or from a table with `name` and settings.

    Example:
        >>> as_aggregator({"name": "krum", "share": 0.1})
        Krum(share=0.1, few='use')
    """
    from unstale.methods.base import Aggregator, Compensator

    made: Aggregator | None = _PARTS.made(value)
    if made is not None:
        return made
    # A compensator has the same two methods, and `lookback` besides.
    if not isinstance(value, Aggregator) or isinstance(value, Compensator | type):
        raise _PARTS.refuse(value)
    return value
