"""CPU size: an item with the same data, clients, lateness and methods, small enough for two cores.

The paper's models take hours on a CPU. `experiments/cpu_size.toml` says what is put in their
place, by the model of the experiment file: another model, fewer samples and rounds. A run may
change more, or have no CPU size, under its key `cpu`; a script has one if it has that key.
Results are kept apart from those at full size.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from unstale.errors import ConfigError
from unstale.reproduce.items import Item, PaperTable, PlannedRun, Script
from unstale.reproduce.toml import check_keys, get, read_toml

Sizes = dict[str, dict[str, Any]]
FILE = "cpu_size.toml"
FOLDER = "cpu"
"""Where results of this size are kept, inside an item's `results`."""


def has_cpu_size(item: Item) -> bool:
    """Return whether any part of an item has a CPU size."""
    sizes = _read(item.folder.parent / FILE)
    return any(_has_one(part, sizes) for part in item.parts)


def at_cpu_size(item: Item) -> Item:
    """Return the item at CPU size, without the parts that have none, and their columns.

    Raises:
        ConfigError: If it has no such part, or `cpu_size.toml` is wrong.
    """
    sizes = _read(item.folder.parent / FILE)
    runs = tuple(_smaller_run(run, sizes) for run in item.runs if _has_one(run, sizes))
    scripts = tuple(_smaller_script(one) for one in item.scripts if _has_one(one, sizes))
    if not runs and not scripts:
        raise ConfigError(
            f"An item should have runs of models that {FILE} names, or scripts with a key `cpu`. "
            f"Found that '{item.name}' has no CPU size. Run it at full size, or with --smoke."
        )
    small = replace(item, runs=runs, scripts=scripts, older="")
    tables = (_fewer_columns(one, item, small) for one in item.tables)
    return replace(small, tables=tuple(one for one in tables if one is not None))


def _has_one(part: PlannedRun | Script, sizes: Sizes) -> bool:
    known = isinstance(part, Script) or _model_of(part) in sizes
    return part.cpu is not None and known


def _model_of(run: PlannedRun) -> str:
    return str(read_toml(run.experiment)["model"].get("name", ""))


def _fewer_columns(table: PaperTable, whole: Item, small: Item) -> PaperTable | None:
    """Return a table with the columns that there are; None if none is left."""
    every = table.columns or tuple(part.name for part in whole.parts)
    left = {part.name for part in small.parts}
    columns = tuple(name for name in every if name in left)
    rows = {
        row: tuple(value for name, value in zip(every, paper, strict=True) if name in left)
        if paper
        else ()
        for row, paper in table.rows.items()
    }
    return replace(table, columns=columns, rows=rows) if columns else None


def _read(path: Path) -> Sizes:
    """Return what replaces each model: `about` in words, and `set` by dotted key."""
    found = read_toml(path) if path.is_file() else {}
    for model, table in found.items():
        where = f"'{model}' in {path.name}"
        check_keys(table, {"about", "set"}, where)
        get(table, "about", str, where)
        get(table, "set", dict, where)
    return found


def _smaller_run(run: PlannedRun, sizes: Sizes) -> PlannedRun:
    size = sizes[_model_of(run)]
    settings = {**size["set"], **(run.settings or {}), **(run.cpu or {})}
    # The file's own description is of the full size, and would stand on the report's page.
    title = settings.get("title", read_toml(run.experiment).get("title", run.name))
    about = f"{title}. At CPU size: {size['about']}."
    return replace(run, settings={**settings, "description": about}, kept_in=FOLDER)


def _smaller_script(script: Script) -> Script:
    return replace(script, arguments=script.cpu or (), kept_in=FOLDER)
