"""Measures: the numbers of a table, from a run folder or a result file, one for each seed."""

import json
import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unstale.errors import RunError, UnknownNameError
from unstale.run_folder import Lines, Round, RunFolder

OURS, REFERENCE = "convert", "unweighted"
"""The methods that times and improvements are compared with."""

Values = dict[str, list[float]]
"""By method: one number for each seed that has one."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Something that is measured of every method and seed of a run."""

    title: str
    """In words, with the unit."""
    digits: int
    """Decimals that are shown."""
    of: Callable[[RunFolder], Values]
    """Reads it from a run folder that is done, or kept."""
    none: str = "–"
    """What stands in a table where no seed of a run has it."""


def _figure(key: str) -> Callable[[RunFolder], Values]:
    """Return a measure that is a figure of the summary, in percent."""

    def of(folder: RunFolder) -> Values:
        methods = folder.read_json(folder.summary_path)["methods"]
        return {
            label: [100 * row[key] for row in found["per_seed"] if row[key] is not None]
            for label, found in methods.items()
        }

    return of


def _relative(folder: RunFolder) -> Values:
    """Return by how many percent each method's accuracy is above that of `unweighted`."""
    by_seed = _by_seed(folder, "affected_accuracy")
    return _compared(by_seed, REFERENCE, lambda own, other: 100 * (own - other) / other)


def _time(folder: RunFolder) -> Values:
    """Return the round from which the target is held, in percent of that of `convert`."""
    return _compared(_by_seed(folder, "held_from"), OURS, lambda own, other: 100 * own / other)


def _by_seed(folder: RunFolder, key: str) -> dict[str, dict[int, float]]:
    methods = folder.read_json(folder.summary_path)["methods"]
    return {
        label: {row["seed"]: row[key] for row in found["per_seed"] if row[key] is not None}
        for label, found in methods.items()
    }


def _compared(
    by_seed: Mapping[str, Mapping[int, float]], with_: str, how: Callable[[float, float], float]
) -> Values:
    """Compare methods seed by seed; seeds in which one of both has no value are left out."""
    other = by_seed.get(with_, {})
    return {
        label: [how(value, other[seed]) for seed, value in own.items() if other.get(seed)]
        for label, own in by_seed.items()
    }


def _oracle(key: str) -> Callable[[RunFolder], Values]:
    """Return a measure of errors that only the simulator knows, over the second half."""

    def of(folder: RunFolder) -> Values:
        config = folder.read_json(folder.config_path)
        found: Values = {}
        for method in config["methods"]:
            found[method["label"]] = per_seed = []
            for seed in config["seeds"]:
                lines = Lines(folder.lines_path(method["label"], seed)).read()
                late = (
                    line.oracle.get(key) for line in lines if line.number > config["rounds"] / 2
                )
                if values := [value for value in late if value is not None]:
                    per_seed.append(statistics.fmean(values))
        return found

    return of


def _fits(pick: Callable[[Round], list[float]]) -> Callable[[RunFolder], Values]:
    """Return a measure that is a mean over all conversions of a seed."""

    def of(folder: RunFolder) -> Values:
        config = folder.read_json(folder.config_path)
        found: Values = {}
        for method in config["methods"]:
            found[method["label"]] = per_seed = []
            for seed in config["seeds"]:
                lines = Lines(folder.lines_path(method["label"], seed)).read()
                if values := [value for line in lines for value in pick(line)]:
                    per_seed.append(statistics.fmean(values))
        return found

    return of


def _losses(line: Round) -> list[float]:
    return [one.loss for one in line.converted if one.loss is not None]


def _seconds(line: Round) -> list[float]:
    return [line.seconds / line.conversions] * line.conversions if line.conversions else []


MEASURES: dict[str, Measure] = {
    "accuracy": Measure("accuracy on all classes at the end, %", 1, _figure("accuracy")),
    "affected_accuracy": Measure(
        "accuracy on the affected classes at the end, %", 1, _figure("affected_accuracy")
    ),
    "affected_mean": Measure(
        "accuracy on the affected classes over the second half, %", 1, _figure("affected_mean")
    ),
    "improvement": Measure(
        "accuracy on the affected classes at the end, above `unweighted`, %", 1, _relative
    ),
    "time": Measure("rounds until the target is held, % of those of `convert`", 0, _time, "never"),
    "cosine_error": Measure(
        "cosine distance to the true fresh update, second half", 3, _oracle("compensated_cosine")
    ),
    "l1_error": Measure(
        "relative L1 error of the update, second half", 3, _oracle("compensated_l1")
    ),
    "fit_loss": Measure("loss of the fits; 1 is no fit at all", 3, _fits(_losses)),
    "fit_seconds": Measure("seconds of a round for each conversion in it", 1, _fits(_seconds)),
}
"""The measures of runs, by name. A table of a script has the measure `file` instead."""
FILE = "file"


def measure_of(name: str) -> Measure:
    """Return a measure by name.

    Raises:
        UnknownNameError: If there is none.
    """
    if name not in MEASURES:
        raise UnknownNameError("The measure", name, (*MEASURES, FILE))
    return MEASURES[name]


def values_in(files: Iterable[Path], key: str, scale: float = 100.0) -> list[float]:
    """Return one number of each result file, in percent; files that are not there are left out.

    Args:
        files: The result files.
        key: The keys down to the number, with `/` between; `*` is the first key that is not
            `about`.
        scale: What numbers are multiplied by.

    Raises:
        RunError: If a file does not have the key.

    Example:
        >>> values_in([], "*/rounds/20/accuracy")
        []
    """
    found = []
    for path in files:
        if not path.is_file():
            continue
        here: Any = json.loads(path.read_text(encoding="utf-8"))
        for part in key.split("/"):
            part = next(k for k in here if k != "about") if part == "*" else part
            if not isinstance(here, dict) or part not in here:
                here = None
                break
            here = here[part]
        if here is None:
            continue  # for instance a round that a shorter run does not reach
        if not isinstance(here, int | float) or not math.isfinite(here):
            raise RunError(f"{path} should have a number at {key}. Found {here!r}.")
        found.append(scale * float(here))
    return found
