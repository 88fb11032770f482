"""The state of a table or figure: how much of it was run at full size and is kept here."""

import json
from pathlib import Path
from typing import Any

from unstale.reproduce.cpu_size import at_cpu_size, has_cpu_size
from unstale.reproduce.items import Item, PlannedRun, Script
from unstale.reproduce.paper import Entry

LEAST_SEEDS = 3
"""A run at full size has at least so many seeds."""

FULL, CPU, PARTLY, SMOKE = "full size", "CPU size", "partly", "smoke only"
STATES = {
    FULL: "every run is kept in the repository, at full size and with three seeds or more",
    CPU: "every run is kept with three seeds or more, small enough for two CPU cores",
    PARTLY: "some runs are kept, or with fewer rounds or seeds, or from before a change",
    SMOKE: "it is built and passes --smoke; nothing has been run at full or CPU size yet",
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
    parts = _parts(item)
    done = parts.count(FULL)
    if done == len(parts) and not item.older:
        return FULL, ""
    small = _parts(at_cpu_size(item)).count(FULL) if has_cpu_size(item) else 0
    if small == len(parts):
        return CPU, ""
    if set(parts) != {SMOKE}:
        return PARTLY, item.older or f"{done} of {len(parts)} runs are kept at full size"
    return (PARTLY, f"{small} of {len(parts)} runs are kept at CPU size") if small else (SMOKE, "")


def kept_places(item: Item, part: PlannedRun | Script) -> Path:
    """Return where a run, or the result files of a script, are kept in the repository."""
    results = item.folder.parent / part.item / "results" / part.kept_in
    return results / part.name if isinstance(part, PlannedRun) else results


def _parts(item: Item) -> list[str]:
    """Return the state of each run and script of an item of this size."""
    parts = [*(_run_state(item, run) for run in item.runs)]
    return parts + [_script_state(item, script) for script in item.scripts]


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
