"""The tables of the study, from its result files.

    python experiments/attackers/tables.py results/seed_10.json results/seed_11.json

A cell is the accuracy over all classes, and that of the affected class behind a slash: means over
seeds of the last fifth of the rounds.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

RESULTS = Path(__file__).parent / "results"
ATTACK_DEFENCE = ("attack", "defence")
Row = dict[str, Any]


def kept() -> list[Row]:
    """Return the rows of all result files that are kept."""
    return read(sorted(RESULTS.glob("seed_*.json")))


def read(paths: Sequence[Path]) -> list[Row]:
    """Return the rows of result files."""
    return [row for path in paths for row in json.loads(path.read_text())["rows"]]


def mean(rows: Sequence[Row], key: str, **where: str) -> float:
    """Return the mean of a figure over the rows that have these values.

    Example:
        >>> rows = [{"attack": "none", "accuracy": 0.5}, {"attack": "scaled", "accuracy": 0.1}]
        >>> mean(rows, "accuracy", attack="none")
        0.5
    """
    return fmean(row[key] for row in rows if all(row[k] == v for k, v in where.items()))


def table(method: str, rows: Sequence[Row] | None = None) -> str:
    """Return defences down and attacks across, for one method."""
    rows = kept() if rows is None else rows
    of = [row for row in rows if row["method"] == method]
    attacks, defences = (list(dict.fromkeys(row[key] for row in of)) for key in ATTACK_DEFENCE)
    head = ["defence", *(name if name != "none" else "no attackers" for name in attacks)]
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " --- |" * len(attacks)]
    for defence in defences:
        cells = []
        for attack in attacks:
            where = {"attack": attack, "defence": defence}
            found = [mean(of, key, **where) for key in ("accuracy", "affected")]
            cells.append(" / ".join(f"{value:.3f}" for value in found))
        lines.append("| " + " | ".join([f"`{defence}`", *cells]) + " |")
    return "\n".join(lines)


def undefended(method: str) -> list[float]:
    """Return the accuracy without attackers, and under each attack without a defence."""
    rows = kept()
    attacks = dict.fromkeys(row["attack"] for row in rows)
    return [mean(rows, "accuracy", method=method, defence="fedavg", attack=a) for a in attacks]


def loss(method: str, defence: str, *attacks: str) -> list[float]:
    """Return how far accuracy under attack is below that without attackers and defence."""
    rows = kept()
    best = mean(rows, "accuracy", method=method, defence="fedavg", attack="none")
    where = {"method": method, "defence": defence}
    return [best - mean(rows, "accuracy", attack=attack, **where) for attack in attacks]


def cost(method: str, *defences: str) -> list[float]:
    """Return what defences cost in the affected class where nobody attacks."""
    rows = kept()
    where = {"method": method, "attack": "none"}
    best = mean(rows, "affected", defence="fedavg", **where)
    return [best - mean(rows, "affected", defence=name, **where) for name in defences]


def by_seed(key: str, method: str, defence: str, attack: str) -> list[float]:
    """Return one figure, `accuracy` or `affected`, for every seed."""
    where = {"method": method, "defence": defence, "attack": attack}
    return [row[key] for row in kept() if all(row[k] == v for k, v in where.items())]


def shown(rows: Sequence[Row]) -> str:
    """Return the tables of both methods, for a terminal."""
    methods = dict.fromkeys(row["method"] for row in rows)
    return "\n\n".join(f"{method}\n{table(method, rows)}" for method in methods)


if __name__ == "__main__":
    print(shown(read([Path(word) for word in sys.argv[1:]])))
