"""Tables and figures of pages from the `summary.json` of runs.

Named in the markers of pages, for instance

    <!-- made by: ../summaries.py table results/summary.json accuracy unweighted convert -->

A row is a method's label in the file, alone or with the text that the table shows for it.
"""

import json
from pathlib import Path
from typing import Any

HEADS = {
    "accuracy": "accuracy",
    "affected_accuracy": "affected",
    "affected_mean": "affected mean",
    "rounds_to_target": "first round at {target}",  # in summaries of format 1
    "held_from": "{target} held from round",
    "conversions": "conversions",
    "iterations": "iterations",
}
WHOLE = ("rounds_to_target", "conversions", "iterations")
"""Figures that are shown without decimals and without a spread."""


def table(path: Path, columns: str, *rows: str) -> str:
    """Return a Markdown table: mean ± standard deviation over seeds.

    Args:
        path: A summary.
        columns: Keys of its figures, with commas between.
        rows: Labels, or `label=text`.
    """
    summary = _read(path)
    keys = columns.split(",")
    head = ["", *(HEADS[key].format(target=summary["target"]) for key in keys)]
    lines = ["| " + " | ".join(head).strip() + " |", "| --- |" + " --- |" * len(keys)]
    for row in rows:
        label, _, text = row.partition("=")
        method = summary["methods"][label]
        cells = [_cell(method, key) for key in keys]
        lines.append("| " + " | ".join([text or f"`{label}`", *cells]) + " |")
    return "\n".join(lines)


def ends(path: Path, *labels: str) -> list[float]:
    """Return the affected accuracy over the last fifth, and its spread, of some methods."""
    methods = [_read(path)["methods"][label] for label in labels]
    return [x for m in methods for x in (m["affected_accuracy"], m["spread"]["affected_accuracy"])]


def gaps(path: Path, reference: str, keys: str, *labels: str) -> list[float]:
    """Return by how much methods are below another one: all keys of the first, then the next."""
    methods = _read(path)["methods"]
    return [methods[reference][k] - methods[m][k] for m in labels for k in keys.split(",")]


def end_gaps() -> list[float]:
    """Return the gaps at the end between no delay and sparse conversion, in both MNIST runs."""
    found = []
    for name in ("mnist_one_class", "mnist_dirichlet"):
        path = Path(__file__).parent / name / "results" / "summary.json"
        found += gaps(path, "unstale", "affected_accuracy", "invert")
    return found


def _cell(method: dict[str, Any], key: str) -> str:
    value, spread = method[key], method["spread"].get(key)
    if value is None:
        return "never"
    if key == "held_from":
        text = f"{value:.0f}" + ("" if spread is None else f" ± {spread:.0f}")
        held, seeds = method["held_seeds"], len(method["per_seed"])
        return text if held == seeds else f"{text} ({held} of {seeds} seeds)"
    if key in WHOLE:
        return f"{value:,.0f}"
    return f"{value:.3f}" + ("" if spread is None else f" ± {spread:.3f}")


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))
