"""Our tables beside the paper's, made from run folders, kept or not, by one function."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unstale.reproduce.items import Item, PaperTable, PlannedRun, Script
from unstale.reproduce.measures import FILE, measure_of, values_in
from unstale.run_folder import RunFolder

Place = Callable[[PlannedRun | Script], Path]
"""Where a run's folder is, or the folder of a script's result files."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Mean and spread over seeds."""

    mean: float
    """The mean."""
    spread: float | None
    """The sample standard deviation; None for one seed."""
    seeds: int
    """How many seeds."""

    @classmethod
    def of(cls, values: list[float]) -> "Figure | None":
        """Return mean and spread; None without a value.

        Example:
            >>> Figure.of([1.0, 2.0, 3.0])
            Figure(mean=2.0, spread=1.0, seeds=3)
        """
        if not values:
            return None
        spread = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), spread, len(values))

    def text(self, digits: int, of: int = 0) -> str:
        """Return it as `57.4 ± 0.3`, with the number of seeds if it is less than `of`.

        Example:
            >>> Figure(57.42, 0.31, 2).text(1, of=3)
            '57.4 ± 0.3 (2 of 3 seeds)'
            >>> Figure(-0.01, 0.2, 3).text(1)
            '0.0 ± 0.2'
        """
        around = "" if self.spread is None else f" ± {self.spread:.{digits}f}"
        seeds = f" ({self.seeds} of {of} seeds)" if self.seeds < of else ""
        mean = round(self.mean, digits) + 0.0  # which leaves no minus before a zero
        return f"{mean:.{digits}f}{around}{seeds}"


@dataclass(frozen=True, slots=True)
class Table:
    """A table beside the paper's: for each row and column our figure and its number."""

    paper: str
    """The label in the paper."""
    title: str
    """What is measured."""
    digits: int
    """Decimals that are shown."""
    columns: tuple[str, ...]
    """The heads of the columns."""
    ours: Mapping[str, tuple[Figure | None, ...]]
    """By row: our figure for each column; None for what has not been run."""
    theirs: Mapping[str, tuple[float, ...]]
    """By row: the paper's number for each column; empty where it has none."""
    missing: tuple[str, ...]
    """For each column, what stands where there is no figure: `not run`, or of a run that is done
    what the measure says, as `never` where no seed held the target."""
    seeds: tuple[int, ...]
    """For each column the seeds of a run that is done; 0 of a script, whose files may be fewer."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been run."""
        return all(figure is None for row in self.ours.values() for figure in row)

    def cells(self) -> list[list[str]]:
        """Return the table as text: a head, then the rows; each column ours, then the paper's."""
        has_paper = any(self.theirs.values())
        heads = [(head, "paper") if has_paper else (head,) for head in self.columns]
        found = [["", *(cell for head in heads for cell in head)]]
        for row, figures in self.ours.items():
            paper = [f"{value:g}" for value in self.theirs[row]] or ["–"] * len(self.columns)
            columns = zip(figures, self.missing, self.seeds, strict=True)
            cells = [none if f is None else f.text(self.digits, n) for f, none, n in columns]
            pairs = zip(cells, paper, strict=True) if has_paper else ((cell,) for cell in cells)
            found.append([row, *(cell for pair in pairs for cell in pair)])
        return found

    def markdown(self) -> str:
        """Return the table in Markdown."""
        head, *rows = self.cells()
        lines = [f"| {' | '.join(head).strip()} |", "| --- |" + " --- |" * (len(head) - 1)]
        return "\n".join([*lines, *(f"| `{row[0]}` | {' | '.join(row[1:])} |" for row in rows)])

    def to_json(self) -> dict[str, Any]:
        """Return the table for programs."""
        return {
            "paper": self.paper,
            "title": self.title,
            "columns": list(self.columns),
            "rows": {
                row: [
                    {
                        "mean": None if figure is None else figure.mean,
                        "spread": None if figure is None else figure.spread,
                        "seeds": 0 if figure is None else figure.seeds,
                        "paper": self.theirs[row][at] if self.theirs[row] else None,
                    }
                    for at, figure in enumerate(figures)
                ]
                for row, figures in self.ours.items()
            },
        }


def tables_of(item: Item, place: Place, seeds: tuple[int, ...] | None = None) -> tuple[Table, ...]:
    """Return all tables of an item, from what has been run so far.

    Args:
        item: The item.
        place: Where its runs are: of a run that is under way, or as they are kept.
        seeds: The seeds of its scripts' files, if not their own.
    """
    return tuple(_table(item, one, place, seeds) for one in item.tables)


def _table(item: Item, spec: PaperTable, place: Place, seeds: tuple[int, ...] | None) -> Table:
    parts = tuple(one for one in item.parts if not spec.columns or one.name in spec.columns)
    ours: dict[str, list[Figure | None]] = {row: [] for row in spec.rows}
    missing, seeds_of = [], []
    for part in parts:
        values: Mapping[str, list[float]] = {}
        none, number = "not run", 0
        if isinstance(part, PlannedRun):
            folder = RunFolder(place(part))
            if folder.is_done:
                measure = measure_of(spec.measure)
                values, none = measure.of(folder), measure.none
                number = len(folder.read_json(folder.summary_path)["seeds"])
        else:
            files = [place(part) / name for name in part.files(seeds)]
            values = {
                row: values_in(files, spec.key.replace("{row}", row), spec.scale)
                for row in spec.rows
            }
        missing.append(none)
        seeds_of.append(number)
        for row, figures in ours.items():
            figures.append(Figure.of(values.get(row, [])))
    of_runs = None if spec.measure == FILE else measure_of(spec.measure)
    return Table(
        spec.paper,
        spec.title or (of_runs.title if of_runs else ""),
        of_runs.digits if of_runs else spec.digits,
        tuple(one.column if isinstance(one, PlannedRun) else one.name for one in parts),
        {row: tuple(figures) for row, figures in ours.items()},
        spec.rows,
        tuple(missing),
        tuple(seeds_of),
    )
