"""What clients hold under Dirichlet mixes: counts by class for ten clients, and the picture.

    python experiments/dirichlet/study.py --sets mnist --data DIR --seeds 10,11,12 --out mnist.json

Writes the counts, and the picture of the first seed beside them as a PNG of the same name.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from unstale import data
from unstale.run_folder.provenance import provenance, require_clean, write_result
from unstale.sim.partition import DirichletLabels

ALPHAS = (0.1, 1.0, 100.0)  # those of the paper's figure
CLIENTS = 10


def counts(labels: np.ndarray, classes: int, alpha: float, samples: int, seed: int) -> list[list]:
    """Return how many samples of each class each client holds."""
    parts = DirichletLabels(CLIENTS, samples, alpha).split(labels, None, seed)
    return [np.bincount(labels[part], minlength=classes).tolist() for part in parts]


def effective(held: list[int]) -> float:
    """Return the number of classes that a client holds in effect, 1 / Σ p².

    Example:
        >>> effective([5, 5, 0]), effective([10, 0, 0])
        (2.0, 1.0)
    """
    shares = np.array(held) / sum(held)
    return float(1 / np.sum(shares**2))


def draw(found: dict[str, Any], path: Path) -> None:
    """Draw a panel for each α: clients across, their samples by class."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.8), dpi=120, layout="constrained")
    axes = figure.subplots(1, len(found), sharey=True)
    for axis, (alpha, rows) in zip(axes, found.items(), strict=True):
        held = np.array(rows)
        below = np.zeros(len(held))
        for klass in range(held.shape[1]):
            axis.bar(range(len(held)), held[:, klass], bottom=below, label=str(klass))
            below += held[:, klass]
        axis.set_title(f"α = {alpha}")
        axis.set_xlabel("client")
    axes[0].set_ylabel("samples")
    axes[-1].legend(title="class", fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, metadata={"Software": None})


def main() -> None:
    """Count, draw and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default="digits")
    parser.add_argument("--samples", type=int, default=450)
    parser.add_argument("--seeds", default="10,11,12")
    parser.add_argument("--device", default="cpu", help="not used: there is nothing to train")
    parser.add_argument("--data")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    require_clean(arguments.out)
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    dataset = data.load(arguments.sets, arguments.data)
    labels = dataset.y_train.numpy()
    found = {
        str(seed): {
            f"{alpha:g}": counts(labels, dataset.num_classes, alpha, arguments.samples, seed)
            for alpha in ALPHAS
        }
        for seed in seeds
    }
    draw(found[str(seeds[0])], arguments.out.with_suffix(".png"))
    write_result(arguments.out, provenance(seeds), {"clients": found})


def classes_in_effect(path: Path, *alphas: str) -> list[float]:
    """Return the mean number of classes in effect over all seeds and clients, for each α."""
    found = json.loads(path.read_text(encoding="utf-8"))["clients"]
    return [
        float(np.mean([effective(held) for seed in found.values() for held in seed[alpha]]))
        for alpha in alphas
    ]


if __name__ == "__main__":
    main()
