"""Figures of the page that are not in its tables, from the same result files."""

import json
from itertools import product
from statistics import fmean

from tables import RESULTS, means

FIGURES = ("end", "late", "all")
DRIFT = {
    "iid": ("digits spread evenly, τ = 40", "`unstale run experiments/standing_in/iid.toml`"),
    "drift_resample_1": (
        "samples replaced by others of the class, one a round",
        "`unstale run experiments/standing_in/drift.toml --set drift.kind=resample`",
    ),
    "drift_resample_5": ("… five a round", "`… --set drift.per_round=5`"),
    "drift_shift_1": (
        "samples replaced by those of the next class, one a round",
        "`unstale run experiments/standing_in/drift.toml`",
    ),
    "drift_shift_2": ("… two a round", "`… --set drift.per_round=2`"),
}


def gaps(figure: str, above: str, below: str, scenario: str, *staleness: str) -> list[float]:
    """Return by how much one method is below another, at each staleness.

    Args:
        figure: `end`, `late` or `all`.
        above: The method that is compared with, such as `no_delay`.
        below: The method that is compared.
        scenario: One of the scenarios.
        staleness: Values of τ.
    """
    at = FIGURES.index(figure)
    return [means(scenario, tau, above)[at] - means(scenario, tau, below)[at] for tau in staleness]


def sparse_cost() -> list[float]:
    """Return what 95 % sparsity costs on digits at τ = 40, at the end and late."""
    return [gaps(figure, "convert", "sparse_95", "digits", "40")[0] for figure in ("end", "late")]


def lates(label: str, scenario: str, *staleness: str) -> list[float]:
    """Return the late affected accuracy of a method, at each staleness."""
    return [means(scenario, tau, label)[FIGURES.index("late")] for tau in staleness]


def span(figure: str, scenarios: str, staleness: str, labels: str) -> list[float]:
    """Return the least and the greatest figure of some methods, all of these with commas."""
    every = product(scenarios.split(","), staleness.split(","), labels.split(","))
    found = [means(*one)[FIGURES.index(figure)] for one in every]
    return [min(found), max(found)]


def largest_gap(figure: str, scenario: str, *staleness: str) -> float:
    """Return the largest gap between no delay and `convert`."""
    return max(gaps(figure, "no_delay", "convert", scenario, *staleness))


def drift() -> str:
    """Return the table of scenarios in which nothing is needed or data drifts."""
    lines = [
        "| scenario | command | `unweighted` | `convert` | stand-ins a seed |",
        "| --- | --- | --- | --- | --- |",
    ]
    for file, (scenario, command) in DRIFT.items():
        methods = _methods(file)
        cells = [_drift_cell(methods[label]) for label in ("unweighted", "convert")]
        count = f"{methods['convert']['stand_ins']:.0f}"
        lines.append("| " + " | ".join([scenario, command, *cells, count]) + " |")
    return "\n".join(lines)


def cost_of_drift() -> float:
    """Return by how much `convert` is at most below `unweighted` where classes move on."""
    keys = ("accuracy", "affected_accuracy", "affected_mean")
    methods = [_methods(f"drift_shift_{n}") for n in (1, 2)]
    return max(m["unweighted"][key] - m["convert"][key] for m in methods for key in keys)


def _methods(run: str) -> dict:
    """Return the figures of every method of a kept run."""
    found: dict = json.loads((RESULTS / run / "summary.json").read_text())["methods"]
    return found


def sensors(file: str, *labels: str) -> list[float]:
    """Return the accuracy over the last fifth of the rounds, by method and seed."""
    runs = json.loads((RESULTS / f"{file}.json").read_text())["runs"]
    return [_end(seed["evaluated"]) for label in labels for seed in runs[label].values()]


def _end(rows: list[list[float]]) -> float:
    return fmean(accuracy for round_, accuracy, _ in rows if round_ > 0.8 * rows[-1][0])


def _drift_cell(method: dict) -> str:
    accuracy = f"{method['accuracy']:.3f}"
    if method["affected_accuracy"] is None:  # no class is affected
        return f"({accuracy} ± {method['spread']['accuracy']:.3f})"
    return f"{method['affected_accuracy']:.3f} / {method['affected_mean']:.3f} ({accuracy})"


def regime_of_the_paper(*labels: str) -> list[float]:
    """Return `quickstart_paper`: affected at the end and over the second half, and all classes."""
    kept = RESULTS.parents[1] / "quickstart" / "results" / "quickstart_paper"
    methods = json.loads((kept / "summary.json").read_text())["methods"]
    keys = ("affected_accuracy", "affected_mean", "accuracy")
    return [methods[label][key] for label in labels for key in keys]
