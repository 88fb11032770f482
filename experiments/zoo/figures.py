"""Result files of `run.py`, read back: the mean errors of each cell."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

LAST = 3
"""The number of arrivals, the last ones, that count as in a run."""
REFERENCES = ("stale", "again", "half")
"""Rows that are of no method: the update as it came, the client's own one trained again with other
batches, and the one from half of its samples."""
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """One cell with the rows of all its seeds."""

    name: str
    staleness: int
    lines: Sequence[Mapping[str, Any]]
    rows: Sequence[Row]

    def error(self, method: str, when: str, kind: str = "cosine") -> float:
        """Return the mean error of a method; NaN where it was not run.

        Args:
            method: A label, or one of `REFERENCES`.
            when: `first` or `run`.
            kind: `cosine`, `l1`, `l2` or `norms`.
        """
        chosen = [row[kind] for row in self.rows if row["method"] == method and is_when(row, when)]
        return mean(chosen)

    def ratio(self, method: str, when: str) -> float:
        """Return the cosine distance as a multiple of the stale update's."""
        stale = self.error("stale", when)
        return self.error(method, when) / stale if stale > 0 else math.nan

    def methods(self) -> list[str]:
        """Return the labels that were run, without those of `REFERENCES`."""
        found = dict.fromkeys(row["method"] for row in self.rows)
        return [m for m in found if m not in REFERENCES]


def is_when(row: Row, when: str) -> bool:
    """Return whether a row counts as `first` or in a `run`."""
    return row["arrival"] == 0 if when == "first" else row["arrival"] > row["last"] - LAST


def mean(values: Iterable[float | None]) -> float:
    """Return the mean; NaN if there is none, or if one of them was not finite.

    Example:
        >>> mean([1.0, 3.0]), mean([])
        (2.0, nan)
    """
    found = list(values)
    if not found or None in found:
        return math.nan
    return fmean(value for value in found if value is not None)


def read(paths: Sequence[Path]) -> tuple[list[dict[str, Any]], dict[tuple[str, int], Any]]:
    """Return the first lines of files, and the line of every cell and seed."""
    abouts: list[dict[str, Any]] = []
    lines: dict[tuple[str, int], Any] = {}
    for path in paths:
        for text in path.read_text().splitlines():
            try:
                line = json.loads(text)
            except ValueError:  # the run was killed while it wrote
                continue
            if "columns" in line:
                abouts.append(line)
            else:
                lines[line["cell"], line["seed"]] = {**line, "columns": abouts[-1]["columns"]}
    return abouts, lines


def results(lines: Mapping[tuple[str, int], Any]) -> list[Result]:
    """Return the cells that were run, in the order of the files."""
    found: dict[str, list[Any]] = {}
    for line in lines.values():
        if line["status"] == "done":
            found.setdefault(line["cell"], []).append(line)
    return [
        Result(
            name,
            members[0]["settings"]["staleness"],
            members,
            [
                {
                    **dict(zip(line["columns"], row, strict=True)),
                    "last": line["settings"]["arrivals"] - 1,
                }
                for line in members
                for row in line["rows"]
            ],
        )
        for name, members in found.items()
    ]
