"""What the study compares, by label: conversion, and the comparators of Appendix C."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from unstale.inversion import Inversion, preset
from unstale.methods import (
    Calibration,
    Compensator,
    ConvertAll,
    DataFreeGenerator,
    DreamedInputs,
    SurrogateData,
)

# Known shares of classes by client, as `SurrogateData.shares` takes them.
Shares = Mapping[str, tuple[float, ...]]


def conversion(inversion: Inversion) -> Compensator:
    """Return a conversion whose estimates are used as they are, however large."""
    return ConvertAll(inversion, calibration=Calibration(enabled=False), max_growth=0)


def sources(shares: Shares, iterations: int | None, **settings: Any) -> dict[str, Compensator]:
    """Return both comparators, whose estimates are used as they are, however large."""
    data = SurrogateData(shares=shares, max_growth=0, **settings)
    found = {"generator": DataFreeGenerator(), "dreams": DreamedInputs()}
    changes = {"surrogate": data} | ({} if iterations is None else {"iterations": iterations})
    return {name: dataclasses.replace(part, **changes) for name, part in found.items()}


def ways(shares: Shares, group: str, iterations: int | None = None) -> dict[str, Compensator]:
    """Return what is compared.

    Args:
        shares: The classes that clients really hold, for the rows *known labels*.
        group: `main`, or `all` to add variants of the comparators.
        iterations: Of every fit, if it should not be the default.

    Example:
        >>> list(ways({}, "main"))[:3]
        ['convert', 'convert, no residual', 'generator']
    """
    changes = {} if iterations is None else {"iterations": iterations, "max_loss": 1e9}
    found = {
        "convert": conversion(Inversion(**changes)),
        "convert, no residual": conversion(preset("no_residual", **changes)),
    }
    # In every way the same samples at most, and the client's recipe.
    kinds: dict[str, tuple[Shares, dict[str, Any]]] = {
        "": ({}, {}),
        ", known labels": (shares, {}),
    }
    if group == "all":
        kinds |= {
            ", even labels": ({}, {"labels": "even"}),
            ", known labels, residual": (shares, {"residual": True}),
            ", known labels, soft": (shares, {"soft_labels": True}),
        }
    for ending, (known, settings) in kinds.items():
        made = sources(known, iterations, **settings)
        found |= {name + ending: part for name, part in made.items()}
    return found
