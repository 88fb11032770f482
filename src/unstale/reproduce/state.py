"""The state of a table or figure: how much of it was run at full size and is kept here."""

import json
from pathlib import Path
from typing import Any

from unstale.reproduce.items import Item, PlannedRun, Script
from unstale.reproduce.paper import Entry

LEAST_SEEDS = 3
"""A run at full size has at least so many seeds."""

FULL, PARTLY, SMOKE = "full size", "partly", "smoke only"
STATES = {
    FULL: "every run is kept in the repository, at full size and with three seeds or more",
    PARTLY: "some runs are kept, or with fewer rounds or seeds, or from before a change",
    SMOKE: "it is built and passes --smoke; nothing has been run at full size yet",
    "not built": "something that it needs is missing",
    "a drawing": "there is nothing to compute",
}
"""What is said of tables and figures, with its meaning."""


def state_of(entry: Entry, item: Item | None) -> tuple[str, str]:
    """Return the state of a table or figure, and the reason where there is one.

    Args:
        entry: The table or figure.
        item: The item that makes it, if there is one.
    """
    return (entry.left or "not built", entry.why) if item is None else item_state(item)


def item_state(item: Item) -> tuple[str, str]:
    """Return the state of everything that an item makes, and the reason where there is one."""
    parts = [*(_run_state(item, run) for run in item.runs)]
    parts += [_script_state(item, script) for script in item.scripts]
    done = parts.count(FULL)
    if done == len(parts) and not item.older:
        return FULL, ""
    if set(parts) != {SMOKE}:
        return PARTLY, item.older or f"{done} of {len(parts)} runs are kept at full size"
    return SMOKE, ""


def kept_places(item: Item, part: PlannedRun | Script) -> Path:
    """Return where a run, or the result files of a script, are kept in the repository."""
    results = item.folder.parent / part.item / "results"
    return results / part.name if isinstance(part, PlannedRun) else results


def _run_state(item: Item, run: PlannedRun) -> str:
    summary = _json(kept_places(item, run) / "summary.json")
    if summary is None:
        return SMOKE
    whole = summary["rounds"] >= run.rounds and len(summary["seeds"]) >= LEAST_SEEDS
    return FULL if whole else PARTLY


def _script_state(item: Item, script: Script) -> str:
    files = [kept_places(item, script) / name for name in script.files()]
    there = sum(path.is_file() for path in files)
    if not there:
        return SMOKE
    return FULL if there == len(files) and len(script.seeds) >= LEAST_SEEDS else PARTLY


def _json(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
