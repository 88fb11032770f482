"""The table of this experiment, from the summaries of its kept runs, one for each optimizer."""

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
METHODS = ("no_delay", "unweighted", "convert")
KEYS = ("accuracy", "affected_accuracy")


def table(*names: str) -> str:
    """Return a Markdown table: mean ± standard deviation over seeds, a row for each run.

    Args:
        names: The folders of the runs in `results`.
    """
    heads = [f"`{method}`, {what}" for method in METHODS for what in ("all", "affected")]
    lines = [f"| server optimizer | {' | '.join(heads)} |", "| --- |" + " --- |" * len(heads)]
    for name in names:
        summary = _read(name, "summary.json")
        cells = [_cell(summary["methods"][m], key) for m in METHODS for key in KEYS]
        lines.append(f"| {_title(name)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def ends(name: str, *methods: str) -> list[float]:
    """Return the affected accuracy of some methods in a run, over the last fifth."""
    found = _read(name, "summary.json")["methods"]
    return [found[method]["affected_accuracy"] for method in methods]


def _title(name: str) -> str:
    optimizer = _read(name, "config.json").get("optimizer", {"name": "plain"})
    rate = f", lr {optimizer['lr']:g}" if "lr" in optimizer else ""
    return f"`{optimizer['name']}`{rate}"


def _cell(method: dict[str, Any], key: str) -> str:
    return f"{method[key]:.3f} ± {method['spread'][key]:.3f}"


def _read(name: str, file: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / name / file).read_text(encoding="utf-8"))
    return found
