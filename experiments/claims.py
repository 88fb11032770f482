"""Figures of the page "The paper and us" that no other script of a folder returns.

Named in its markers:

    <!-- from: ../experiments/claims.py affected quickstart/results/quickstart no_delay -->
"""

import json
from pathlib import Path
from typing import Any

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
