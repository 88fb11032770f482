"""The figures of a run, from its records alone.

A record is one round's JSON line. These definitions are the only ones: the
summary, the tables and the report page all come from here.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]

# The figures of a summary that vary from seed to seed and get a spread.
FIGURES = ("accuracy", "affected_accuracy", "affected_mean", "rounds_to_target")


def figures(records: Sequence[Record], rounds: int, target: float) -> dict[str, Any]:
    """Return the figures of one method with one seed.

    `accuracy` and `affected_accuracy` are means over the last fifth of the rounds,
    `affected_mean` is one over the second half; `rounds_to_target` is the first round
    whose affected accuracy reaches the target. Rounds that were not evaluated are left
    out, and a figure without any value is None.

    Example:
        >>> lines = [
        ...     {"round": r, "accuracy": 0.5, "affected_accuracy": r / 10, "conversions": 1,
        ...      "iterations": 20} for r in range(1, 11)]
        >>> figures(lines, rounds=10, target=0.75)["rounds_to_target"]
        8
        >>> figures(lines, rounds=10, target=0.75)["affected_accuracy"]
        0.95
    """

    def mean(key: str, after: float) -> float | None:
        values = [r[key] for r in records if r["round"] > after and r.get(key) is not None]
        return statistics.fmean(values) if values else None

    reached = (
        r["round"]
        for r in records
        if r.get("affected_accuracy") is not None and r["affected_accuracy"] >= target
    )
    return {
        "accuracy": mean("accuracy", rounds * 4 / 5),
        "affected_accuracy": mean("affected_accuracy", rounds * 4 / 5),
        "affected_mean": mean("affected_accuracy", rounds / 2),
        "rounds_to_target": next(reached, None),
        "conversions": sum(r.get("conversions", 0) for r in records),
        "iterations": sum(r.get("iterations", 0) for r in records),
    }


def over_seeds(per_seed: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the mean figures over seeds, their spread, and each seed's own.

    The spread is the sample standard deviation, None for fewer than two values. A mean
    over seeds of which one has no value (a target never reached) is None.
    """
    rows = list(per_seed.values())
    summary: dict[str, Any] = {}
    spread: dict[str, float | None] = {}
    for key in FIGURES:
        values = [row[key] for row in rows]
        whole = bool(values) and all(value is not None for value in values)
        summary[key] = statistics.fmean(values) if whole else None
        spread[key] = statistics.stdev(values) if whole and len(values) > 1 else None
    for key in ("conversions", "iterations"):
        summary[key] = statistics.fmean(row[key] for row in rows) if rows else 0.0
    summary["spread"] = spread
    summary["per_seed"] = [{"seed": seed, **row} for seed, row in per_seed.items()]
    return summary
