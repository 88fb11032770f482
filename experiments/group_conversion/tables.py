"""The tables of the study, from its result files.

python experiments/group_conversion/tables.py results/seed_10.json results/seed_11.json
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

RESULTS = Path(__file__).parent / "results"
Row = dict[str, Any]
NAMES = {
    "stale": "stale, as they came",
    "groups_of_1": "groups of 1",
    "groups_of_3": "groups of 3",
    "groups_of_10": "one group of 10",
    "convert": "`convert`, each on its own",
    "convert_arrivals": "`convert`, no stand-ins",
    "groups_of_10_arrivals": "one group of 10, no stand-ins",
    "no_delay": "`no_delay`",
    "unweighted": "`unweighted`",
}


def kept(key: str) -> list[Row]:
    """Return the rows of all result files that are kept: `errors` or `effects`."""
    return read(sorted(RESULTS.glob("seed_*.json")), key)


def read(paths: Sequence[Path], key: str) -> list[Row]:
    """Return the rows of result files."""
    return [row for path in paths for row in json.loads(path.read_text())[key]]


def figures(rows: Sequence[Row], by: str, *keys: str) -> dict[str, list[float]]:
    """Return means of some figures by the value of a key.

    Example:
        >>> figures([{"way": "a", "l1": 1.0}, {"way": "a", "l1": 2.0}], "way", "l1")
        {'a': [1.5]}
    """
    labels = dict.fromkeys(row[by] for row in rows)
    return {
        label: [fmean(row[key] for row in rows if row[by] == label) for key in keys]
        for label in labels
    }


def error_table(rows: Sequence[Row] | None = None) -> str:
    """Return the errors of the late clients' mean, by group size: first answers, and later ones."""
    rows = kept("errors") if rows is None else rows
    parts = [[r for r in rows if (r["answer"] == 0) == first] for first in (True, False)]
    found = [figures(part, "way", "cosine", "l1") for part in parts]
    lines = [
        "| late updates | cosine distance, first answer | later | L1 error, first answer | later |",
        "| --- | --- | --- | --- | --- |",
    ]
    for label in found[0]:
        (first, first_l1), (later, later_l1) = (part[label] for part in found)
        lines.append(
            f"| {NAMES[label]} | {first:.4f} | {later:.4f} | {first_l1:.3f} | {later_l1:.3f} |"
        )
    return "\n".join(lines)


def effect_table(rows: Sequence[Row] | None = None) -> str:
    """Return the accuracies end to end."""
    keys = ("accuracy", "affected", "affected_half", "iterations")
    found = figures(kept("effects") if rows is None else rows, "method", *keys)
    lines = [
        "| method | accuracy | affected class | its mean over the second half | iterations |",
        "| --- | --- | --- | --- | --- |",
    ]
    for label, (accuracy, affected, half, iterations) in found.items():
        numbers = f"{accuracy:.3f} | {affected:.3f} | {half:.3f} | {iterations:,.0f}"
        lines.append(f"| {NAMES[label]} | {numbers} |")
    return "\n".join(lines)


def errors(key: str, *ways: str) -> list[float]:
    """Return the errors of some ways in later answers: `cosine` or `l1`."""
    found = figures([row for row in kept("errors") if row["answer"] > 0], "way", key)
    return [found[way][0] for way in ways]


def effects(key: str, *labels: str) -> list[float]:
    """Return a figure of some methods."""
    found = figures(kept("effects"), "method", key)
    return [found[label][0] for label in labels]


def shown(errors: Sequence[Row], effects: Sequence[Row]) -> str:
    """Return both tables, for a terminal."""
    return f"{error_table(errors)}\n\n{effect_table(effects)}"


if __name__ == "__main__":
    paths = [Path(word) for word in sys.argv[1:]]
    print(shown(read(paths, "errors"), read(paths, "effects")))
