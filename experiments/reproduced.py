"""Tables of the paper's items for pages, from the results that are kept.

Named in the markers of pages:

    <!-- made by: ../reproduced.py results main_table -->
    <!-- made by: ../experiments/reproduced.py catalogue -->
"""

import json
from pathlib import Path
from typing import Any

from unstale.reproduce import (
    Catalogue,
    Item,
    at_cpu_size,
    has_cpu_size,
    item_state,
    kept_places,
    read_catalogue,
    state_of,
    tables_of,
)
from unstale.run_folder.provenance import in_words

HERE = Path(__file__).parent
NOTHING = "Nothing has been run at full or CPU size yet, so there is no table here."
AT_CPU_SIZE = (
    "*At CPU size* (`--size cpu`; [what that changes](../cpu_size.toml)). The paper's numbers are "
    "of its own models and sizes:"
)


def catalogue() -> str:
    """Return every table and figure of the paper with its item and state."""
    found = read_catalogue(HERE)
    lines = ["| paper | shows | item | state |", "| --- | --- | --- | --- |"]
    for entry in found.entries:
        item = found.maker(entry)
        state, why = state_of(entry, item)
        name = "–" if item is None else f"`{item.name}`"
        said = f"{state}: {why.rstrip('.')}" if why else state
        lines.append(f"| {entry.name} | {entry.about} | {name} | {said} |")
    return "\n".join(lines)


def results(name: str) -> str:
    """Return an item's tables beside the paper's, with pictures and origin; else that none is."""
    found = read_catalogue(HERE)
    item = found.find(name)
    parts = _of_one_size(found, item)
    if has_cpu_size(item) and (small := _of_one_size(found, at_cpu_size(item))):
        parts += [AT_CPU_SIZE, *small]
    if not parts:
        return NOTHING
    state = ": ".join(filter(None, item_state(item)))
    return "\n\n".join([f"State: {state}.", *parts])


def _of_one_size(found: Catalogue, item: Item) -> list[str]:
    """Return the tables, pictures and origins of an item's results at full size or CPU size."""
    parts = []
    for table in tables_of(item, lambda part: kept_places(item, part)):
        if not table.is_empty:
            head = f"{found.entry(table.paper).name}: {table.title}"
            parts += [f"**{head}** (ours ± standard deviation over seeds, then the paper's)"]
            parts += [table.markdown()]
    return [*parts, *_pictures(item), *_origins(item)] if parts else []


def _pictures(item: Item) -> list[str]:
    """Return the curves of the runs that are kept with this item."""
    found = []
    for run in item.runs:
        path = kept_places(item, run) / "affected_accuracy.png"
        if run.item == item.name and path.is_file():
            place = path.relative_to(item.folder).as_posix()
            found.append(f"![Accuracy on the affected classes by round: {run.column}]({place})")
    return found


def _origins(item: Item) -> list[str]:
    """Return rounds, seeds, hardware, time and commit of everything that is kept."""
    lines = []
    for run in item.runs:
        place = kept_places(item, run)
        if (place / "summary.json").is_file():
            lines.append(f"- {run.column}: {_origin(place)}")
    for script in item.scripts:
        for name in script.files():
            about = _about(kept_places(item, script) / name)
            if about:
                words = _hardware(about.get("hardware") or about.get("machine"))
                lines.append(f"- `{name}`: {words}commit {about.get('commit') or 'not noted'}")
    return ["\n".join(lines)] if lines else []


def _origin(place: Path) -> str:
    summary, environment = (_read(place / f"{n}.json") for n in ("summary", "environment"))
    seconds = sum(one["seconds"] for one in _read(place / "timing.json")["methods"].values())
    seeds = ", ".join(map(str, summary["seeds"]))
    machine = environment.get("gpu") or environment.get("cpu") or "a machine that was not noted"
    return (
        f"{summary['rounds']} rounds, seeds {seeds}, {machine}, {_duration(seconds)} of rounds in "
        f"all, commit {environment['commit']}"
    )


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes >= 60:
        return f"{seconds / 3600:.1f} hours"
    return f"{minutes} minute{'s' * (minutes != 1)}" if minutes else "less than a minute"


def _hardware(found: Any) -> str:
    if isinstance(found, dict) and {"cpu", "cores", "threads", "gpu", "torch"} <= set(found):
        return f"{in_words(found)}, "
    return ""


def _about(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    content = _read(path)
    about: dict[str, Any] = content.get("about", content)
    return about


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
