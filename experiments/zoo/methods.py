"""What the zoo tries on late updates, by label."""

import tomllib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from unstale.inversion import Inversion, preset
from unstale.methods import (
    Calibration,
    Compensator,
    ConvertAll,
    DataFreeGenerator,
    DreamedInputs,
    FirstOrder,
)

SPARSITY = (0, 50, 80, 90, 95, 99)


def _sparse(percent: int, **changes: Any) -> Compensator:
    return ConvertAll(Inversion(history=4, sparsity=percent / 100, **changes))


# Estimates as they are, whatever the server has learned of earlier ones.
AS_THEY_ARE = Calibration(enabled=False)

METHODS: dict[str, Compensator] = {
    # Every late update is converted, unique or not, so that each is judged.
    "default": ConvertAll(),
    "uncalibrated": ConvertAll(calibration=AS_THEY_ARE),
    "first_order": FirstOrder(),
    "one_update": ConvertAll(Inversion(history=1)),
    "thorough": ConvertAll(preset("thorough")),
    # As the preset was when the zoo was made: its 15,000 iterations take too long for all cells.
    "paper": ConvertAll(
        preset("paper_dense", iterations=2000, warm_iterations=2000), calibration=AS_THEY_ARE
    ),
    "no_residual": ConvertAll(preset("no_residual")),
    "plain_start": ConvertAll(Inversion(start="grey")),
    # Comparators: surrogate data from the client's model instead of its update.
    "generator": DataFreeGenerator(),
    "dreams": DreamedInputs(),
    "gaussian_start": ConvertAll(Inversion(start="gaussian")),
    # Fitted to four updates; the residual is of the whole update, sparse or not.
    **{f"sparse_{percent}": _sparse(percent) for percent in SPARSITY},
    # Without it only the entries that are kept are used, as in the paper.
    **{f"sparse_{percent}_alone": _sparse(percent, residual=False) for percent in SPARSITY},
}


def tried(settings: Sequence[str]) -> Compensator:
    """Return the conversion with settings from the command line.

    Args:
        settings: `KEY=VALUE` each, of `Inversion`, `Calibration` or `ConvertAll`; a word is a
            string. `calibration=false` uses estimates as they are.

    Example:
        >>> method = tried(["history=4", "start=gaussian", "max_growth=0"])
        >>> method.inversion.history, method.inversion.start, method.max_growth
        (4, 'gaussian', 0)
    """
    values = dict(_value(setting) for setting in settings)
    if "calibration" in values:
        values["enabled"] = values.pop("calibration")

    def taken(group: type[Any]) -> Any:
        names = {f.name for f in fields(group)} & set(values)
        return group(**{name: values.pop(name) for name in names})

    return ConvertAll(taken(Inversion), calibration=taken(Calibration), **values)


def _value(setting: str) -> tuple[str, Any]:
    key, _, text = setting.partition("=")
    try:
        return key, tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return key, text
