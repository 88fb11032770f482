"""The two looks of digits that data drifts between, and what a model of the first makes of both.

    python experiments/two_looks/study.py --smoke --out result.json
    python experiments/two_looks/study.py --data DIR --seeds 10 --out mnist_10.json

The result has samples of each class in both looks, and the accuracy of a model on test samples
of both, trained on the first look, on the second, and on both in equal parts.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unstale import LocalSpec
from unstale.data import Dataset
from unstale.reproduce.images import as_levels, draw_rows
from unstale.reproduce.study import StudyOptions, mean_of, run_study
from unstale.reproduce.trained import accuracy_of, trained_model
from unstale.seeding import generator

EACH = 2  # samples of each class that are shown
TRAINED, TESTED = 3000, 2000
RECIPE = LocalSpec(lr=0.05, momentum=0.9, epochs=4, batch_size=50)


def looks(options: StudyOptions) -> dict[str, Dataset]:
    """Return MNIST and its blended form; digits and their negative in a smoke run."""
    if not options.smoke:
        return {name: options.data(name) for name in ("mnist", "blended_mnist")}
    dark = options.data("digits")
    negative = dataclasses.replace(dark, x_train=1 - dark.x_train, x_test=1 - dark.x_test)
    return {"digits": dark, "negative": negative}


def study(options: StudyOptions) -> dict[str, Any]:
    """Return the samples and the accuracies."""
    both = looks(options)
    first = next(iter(both.values()))
    rng = generator(options.seed, "samples")
    chosen = torch.randperm(len(first.y_train), generator=rng)[:TRAINED]
    # Digit by digit the same in both looks, so that nothing but the look differs.
    parts = {name: (one.x_train[chosen], one.y_train[chosen]) for name, one in both.items()}
    half = len(chosen) // 2
    halves = [
        (x[at], y[at])
        for (x, y), at in zip(parts.values(), (slice(half), slice(half, None)), strict=True)
    ]
    parts["both"] = tuple(torch.cat(one) for one in zip(*halves, strict=True))
    accuracy = {}
    for name, (x, y) in parts.items():
        model = trained_model(
            "digits" if options.smoke else "lenet", x, y, first.num_classes, RECIPE, options.seed
        )
        accuracy[name] = {
            tested: accuracy_of(model, one.x_test[:TESTED], one.y_test[:TESTED])
            for tested, one in both.items()
        }
    low, high = min(d.low for d in both.values()), max(d.high for d in both.values())
    at = shown(first.y_train, first.num_classes, rng)
    return {
        "shape": list(first.input_shape),
        "samples": {name: as_levels(one.x_train[at], low, high) for name, one in both.items()},
        "accuracy": accuracy,
    }


def shown(labels: Tensor, classes: int, rng: torch.Generator) -> Tensor:
    """Return the places of `EACH` samples of every class, class by class."""
    order = torch.randperm(len(labels), generator=rng)
    return torch.cat([order[labels[order] == k][:EACH] for k in range(classes)])


def draw(found: Mapping[str, Any], path: Path) -> None:
    """Draw a row for each look, the same digits in both."""
    draw_rows(found["samples"], found["shape"], path, scale=0.45)


def figures(*words: str) -> list[float]:
    """Return means over the kept results, such as `accuracy/mnist/blended_mnist`."""
    return mean_of(Path(__file__).parent, "mnist_*.json", *words)


def table() -> str:
    """Return the table of the page: trained on a look down, tested on a look across."""
    tested = {"mnist": "tested on MNIST", "blended_mnist": "on blended digits"}
    trained = {"mnist": "MNIST", "blended_mnist": "blended digits", "both": "half of each"}
    lines = ["| trained on | " + " | ".join(tested.values()) + " |", "| --- |" + " --- |" * 2]
    for one, words in trained.items():
        cells = [f"{v:.3f}" for v in figures(*(f"accuracy/{one}/{look}" for look in tested))]
        lines.append("| " + " | ".join([words, *cells]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    run_study(__doc__, study, draw)
