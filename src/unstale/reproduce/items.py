"""Items: how a table or figure is made, from `experiments/NAME/item.toml`.

An item has *runs* (an experiment file with some settings changed) or *scripts* (a study that
writes one result file), and *tables*, which put a measure of the runs beside the paper's
numbers: methods down, runs across.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unstale.errors import ConfigError
from unstale.reproduce.toml import check_keys, get, read_toml, tables_at

FILE = "item.toml"


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of an item: a column of its tables."""

    item: str
    """The item that the run belongs to, and under which its results are kept."""
    name: str
    """The name of its run folder."""
    column: str
    """The head of its column."""
    experiment: Path
    """The experiment file."""
    tune: bool = False
    """Whether settings are tuned first, as by `unstale run --tune`."""
    settings: Mapping[str, Any] | None = None
    """What is changed in the file, by dotted key; `set` in the file."""
    smoke: Mapping[str, Any] | None = None
    """What is changed in a smoke run besides."""
    cpu: Mapping[str, Any] | None = None
    """What is changed at CPU size besides; None if it has no CPU size, `false` in the file."""
    kept_in: str = ""
    """The folder in `results` in which it is kept; at full size `results` itself."""

    @property
    def rounds(self) -> int:
        """The number of rounds, as the file and `settings` say."""
        changed = (self.settings or {}).get("rounds")
        return int(read_toml(self.experiment)["rounds"] if changed is None else changed)


@dataclass(frozen=True, slots=True)
class Script:
    """A study that writes one result file for each seed."""

    item: str
    """The item that it belongs to."""
    name: str
    """The name of the step, which is also the head of its column."""
    path: Path
    """The Python file. It takes `--seeds`, `--device`, `--data` and `--out`."""
    arguments: tuple[str, ...]
    """What it is given besides."""
    smoke: tuple[str, ...]
    """The same in a smoke run."""
    seeds: tuple[int, ...]
    """The seeds."""
    out: str
    """The name of a result file; `{seed}` in it stands for the seed. Without it all seeds are in
    one file."""
    cpu: tuple[str, ...] | None = None
    """The arguments at CPU size; None if it has none."""
    kept_in: str = ""
    """The folder in `results` in which files are kept; at full size `results` itself."""

    def files(self, seeds: tuple[int, ...] | None = None) -> dict[str, tuple[int, ...]]:
        """Return the result files and the seeds of each.

        Example:
            >>> one = Script("a", "b", Path("c.py"), (), (), (1, 2), "d_{seed}.json")
            >>> one.files()
            {'d_1.json': (1,), 'd_2.json': (2,)}
        """
        seeds = seeds or self.seeds
        if "{seed}" not in self.out:
            return {self.out: seeds}
        return {self.out.replace("{seed}", str(seed)): (seed,) for seed in seeds}


@dataclass(frozen=True, slots=True)
class PaperTable:
    """One measure of an item's runs, beside the paper's numbers."""

    paper: str
    """The label in the paper."""
    measure: str
    """What is measured, a name in `unstale.reproduce.measures`."""
    rows: Mapping[str, tuple[float, ...]]
    """The paper's numbers by row and column; empty for a row that the paper does not have."""
    title: str = ""
    """What is measured, in words; the measure's own words if empty."""
    key: str = ""
    """For results of scripts: where in a file a row's value is, `{row}` standing for the row."""
    columns: tuple[str, ...] = ()
    """The runs or scripts that are its columns, by name; all if empty."""
    scale: float = 100.0
    """For results of scripts: what their values are multiplied by; 100 makes percent of shares."""
    digits: int = 1
    """For results of scripts: decimals that are shown."""


@dataclass(frozen=True, slots=True)
class Item:
    """One or several tables and figures of the paper that are made together."""

    name: str
    """The name of its folder."""
    folder: Path
    """The folder."""
    title: str
    """What it is, in a few words."""
    makes: tuple[str, ...]
    """The labels of what it makes."""
    runs: tuple[PlannedRun, ...] = ()
    """Its runs, those of other items (`of`) included."""
    scripts: tuple[Script, ...] = ()
    """Its scripts."""
    tables: tuple[PaperTable, ...] = ()
    """Its tables."""
    older: str = ""
    """Why the results that are kept count only in part, for instance because defaults changed."""

    @property
    def parts(self) -> tuple["PlannedRun | Script", ...]:
        """Runs and scripts, which are the columns of its tables."""
        return (*self.runs, *self.scripts)


def read_item(folder: Path) -> Item:
    """Return the item that a folder describes.

    Raises:
        ConfigError: If the description is wrong.
    """
    path = folder / FILE
    where = f"{folder.name}/{FILE}"
    table = read_toml(path)
    check_keys(table, {"title", "makes", "older", "runs", "scripts", "tables"}, where)
    runs = tuple(_run(one, folder, where) for one in tables_at(table, "runs", where))
    scripts = tuple(_script(one, folder, where) for one in tables_at(table, "scripts", where))
    if not runs and not scripts:
        raise ConfigError(f"{where} should have [[runs]] or [[scripts]]. Found neither.")
    tables = tuple(_table(one, where) for one in tables_at(table, "tables", where))
    item = Item(
        folder.name,
        folder,
        get(table, "title", str, where),
        tuple(get(table, "makes", list, where)),
        runs,
        scripts,
        tables,
        get(table, "older", str, where, ""),
    )
    _check(item, where)
    return item


def _check(item: Item, where: str) -> None:
    """Raise ConfigError if names are not unique, or a table does not fit the runs."""
    names = [part.name for part in item.parts]
    if len(set(names)) < len(names):
        raise ConfigError(f"Names in {where} should be unique. Found {', '.join(names)}.")
    for one in item.tables:
        across = len(one.columns or names)
        if wrong := set(one.columns) - set(names):
            raise ConfigError(f"Columns in {where} should be runs. Found {sorted(wrong)}.")
        if bad := [row for row, paper in one.rows.items() if len(paper) not in (0, across)]:
            raise ConfigError(
                f"Rows of table '{one.paper}' in {where} should have {across} numbers or none. "
                f"Found others in: {', '.join(bad)}."
            )


def _run(table: dict[str, Any], folder: Path, where: str) -> PlannedRun:
    check_keys(
        table,
        {"name", "column", "experiment", "of", "tune", "set", "smoke", "cpu"},
        f"runs in {where}",
    )
    if "of" in table:  # a run of another item, under its own head
        other, _, name = str(table["of"]).partition("/")
        shared = {run.name: run for run in read_item(folder.parent / other).runs}
        if name not in shared or len(table) > 2:
            raise ConfigError(
                f"A run with `of` in {where} should name ITEM/RUN and have a `column` at most. "
                f"Found {table}; runs of '{other}' are: {', '.join(shared)}."
            )
        run = shared[name]
        column = get(table, "column", str, where, run.column)
        return replace(run, column=column)
    name = get(table, "name", str, where)
    experiment = folder / get(table, "experiment", str, where, "config.toml")
    if not experiment.is_file():
        raise ConfigError(
            f"Run '{name}' in {where} should have an experiment file. {experiment} is none."
        )
    return PlannedRun(
        folder.name,
        name,
        get(table, "column", str, where, name),
        experiment,
        get(table, "tune", bool, where, False),
        get(table, "set", dict, where, {}),
        get(table, "smoke", dict, where, {}),
        None if table.get("cpu") is False else get(table, "cpu", dict, where, {}),
    )


def _script(table: dict[str, Any], folder: Path, where: str) -> Script:
    known = {"name", "file", "arguments", "smoke", "cpu", "seeds", "out"}
    check_keys(table, known, f"scripts in {where}")
    name = get(table, "name", str, where)
    path = folder / get(table, "file", str, where)
    if not path.is_file():
        raise ConfigError(f"Script '{name}' in {where} should have a file. {path} is none.")
    arguments, smoke = (get(table, key, list, where) for key in ("arguments", "smoke"))
    seeds = get(table, "seeds", list, where)
    return Script(
        folder.name,
        name,
        path,
        tuple(map(str, arguments)),
        tuple(map(str, smoke)),
        tuple(seeds),
        get(table, "out", str, where),
        tuple(map(str, get(table, "cpu", list, where))) if "cpu" in table else None,
    )


def _table(table: dict[str, Any], where: str) -> PaperTable:
    check_keys(table, PaperTable.__dataclass_fields__, f"tables in {where}")
    rows = get(table, "rows", dict, where)
    return PaperTable(
        get(table, "paper", str, where),
        get(table, "measure", str, where),
        {str(row): tuple(map(float, numbers)) for row, numbers in rows.items()},
        get(table, "title", str, where, ""),
        get(table, "key", str, where, ""),
        tuple(get(table, "columns", list, where, [])),
        float(table.get("scale", 100.0)),
        get(table, "digits", int, where, 1),
    )
