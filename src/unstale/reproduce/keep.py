"""Keeping what an item's runs gave: copies in `experiments/NAME/results` that can be committed."""

import json
from pathlib import Path

from unstale.errors import RunError
from unstale.files import write_whole
from unstale.reproduce.items import Item, PlannedRun, Script
from unstale.reproduce.state import kept_places
from unstale.run_folder import RunFolder, keep_run
from unstale.run_folder.provenance import require_clean

PICTURE = "affected_accuracy.png"


def keep_item(item: Item, out: Path) -> list[Path]:
    """Keep every run and result file of an item that is done and not kept yet.

    Runs that belong to other items are kept with these.

    Args:
        item: The item.
        out: The folder of the runs of all items.

    Returns:
        What was kept now.

    Raises:
        RunError: If nothing is done, if another result is kept already, or if a result comes
            from a tree with changes.
    """
    done = [run for run in item.runs if run.item == item.name and _folder(out, run).is_done]
    files = [
        (out / item.name / name, script)
        for script in item.scripts
        for name in script.files()
        if (out / item.name / name).is_file()
    ]
    if not done and not files:
        raise RunError(
            f"A run of '{item.name}' should be done before it is kept. Found none in "
            f"{out / item.name}. Run `unstale reproduce {item.name}` first."
        )
    kept = [path for run in done if (path := _keep_run(item, run, out))]
    return kept + [path for file, script in files if (path := _keep_file(item, script, file))]


def _folder(out: Path, run: PlannedRun) -> RunFolder:
    return RunFolder(out / run.item / run.name)


def _keep_run(item: Item, run: PlannedRun, out: Path) -> Path | None:
    folder, place = _folder(out, run), kept_places(item, run)
    before = place / folder.summary_path.name
    if before.is_file() and before.read_bytes() == folder.summary_path.read_bytes():
        return None
    keep_run(folder, place)
    picture = folder.path / "plots" / PICTURE
    if picture.is_file():
        write_whole(place / PICTURE, picture.read_bytes())
    return place


def _keep_file(item: Item, script: Script, file: Path) -> Path | None:
    place = kept_places(item, script) / file.name
    content = file.read_bytes()
    if place.is_file():
        if place.read_bytes() == content:
            return None
        raise RunError(
            f"A result should be kept where there is none. {place} holds another one. "
            "Remove it first."
        )
    require_clean(place, json.loads(content)["about"])
    write_whole(place, content)
    picture = file.with_suffix(".png")
    if picture.is_file():
        write_whole(place.with_suffix(".png"), picture.read_bytes())
    return place
