"""Figures of the page "The paper and us" that no other script of a folder returns.

Named in its markers:

    <!-- from: ../experiments/claims.py affected quickstart/results/quickstart no_delay -->
"""

import json
from pathlib import Path
from statistics import fmean
from typing import Any

from unstale.reproduce.measures import MEASURES
from unstale.run_folder import RunFolder

HERE = Path(__file__).parent


def figure(run: str, key: str, *labels: str) -> list[float]:
    """Return one figure of a kept run for some methods.

    Args:
        run: The folder of the summary, from `experiments`.
        key: A figure of the summary, such as `affected_accuracy`.
        labels: Methods.
    """
    methods = _read(f"{run}/summary.json")["methods"]
    return [methods[label][key] for label in labels]


def affected(run: str, *labels: str) -> list[float]:
    """Return the accuracy on the affected classes over the last fifth."""
    return figure(run, "affected_accuracy", *labels)


def measured(run: str, measure: str, *labels: str) -> list[float]:
    """Return a measure of the paper's tables for some methods of a kept run, means over seeds.

    Args:
        run: The folder of the run, from `experiments`.
        measure: A name in `unstale.reproduce.measures`.
        labels: Methods.
    """
    values = MEASURES[measure].of(RunFolder(HERE / run))
    return [fmean(values[label]) for label in labels]


def by_staleness(label: str) -> list[float]:
    """Return a method's cosine error at τ = 5, 10, 20 and 50 (Figure 4, at CPU size)."""
    runs = (f"error_by_staleness/results/cpu/staleness_{tau}" for tau in (5, 10, 20, 50))
    return [value for run in runs for value in measured(run, "cosine_error", label)]


def tried(run: str, key: str, label: str, *places: str) -> list[float]:
    """Return a figure of some tries of a kept tuning, by their place in the list."""
    tries = _read(f"{run}/tuning.json")["methods"][label]["tries"]
    return [tries[int(place)]["figures"][key] for place in places]


def right_decisions() -> float:
    """Return the share of right decisions on uniqueness, MNIST, over seeds and all rounds."""
    found = [_read(f"uniqueness/results/mnist_seed_{seed}.json") for seed in (0, 1, 2)]
    shares = [next(iter(one.values()))["rounds"]["all"]["accuracy"] for one in found]
    return sum(shares) / len(shares)


def _read(name: str) -> Any:
    return json.loads((HERE / name).read_text(encoding="utf-8"))
