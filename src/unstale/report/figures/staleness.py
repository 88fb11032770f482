"""Staleness of the updates that arrived, as a grid of rounds by staleness.

All methods of a run usually meet the same arrivals, because the clients are the
same. Methods with equal arrivals share one grid, so the picture is shown once.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from unstale.report.records import Run

MAX_COLUMNS = 120
MAX_ROWS = 24

# A round under a seed, and how many updates of which staleness arrived then.
_Step = tuple[int, int]
_Ages = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Column:
    """One step on the time axis: one round, or some neighbouring ones."""

    first: int
    """Its first round."""
    last: int
    """Its last round."""
    mean: float
    """Mean staleness of what arrived; 0 where nothing did."""
    highest: int
    """The highest staleness that arrived."""
    rows: tuple[float, ...]
    """Updates a round in each staleness row, mean over seeds."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The grid of all methods that met the same arrivals."""

    labels: tuple[str, ...]
    """Those methods."""
    width: int
    """Row 0 is fresh updates; row k holds staleness (k - 1)·width + 1 to k·width."""
    columns: tuple[Column, ...]
    """Over the rounds, in order."""

    @property
    def has_stale(self) -> bool:
        """Whether any update was stale."""
        return any(column.highest for column in self.columns)

    @property
    def num_rows(self) -> int:
        """Rows of the grid, fresh ones included."""
        return len(self.columns[0].rows) if self.columns else 0


@dataclass(frozen=True, slots=True)
class StalenessChart:
    """The grids of a run, each shown for the methods that share it."""

    last_round: int
    """Where the axis of rounds ends."""
    grids: tuple[Arrivals, ...]
    """Those with stale updates, the most shared first; may be empty."""
    without: tuple[str, ...]
    """Labels of the methods that met no stale update."""

    key = "staleness"
    title = "Staleness over time"
    desc = (
        "Rounds from left to right, staleness upwards. The deeper a cell, the more "
        "updates of that staleness arrived in that round. The line is the mean."
    )

    def name(self, grid: Arrivals) -> str:
        """Return the methods that share a grid, in words."""
        if len(grid.labels) == 1:
            return grid.labels[0]
        known = sum(len(g.labels) for g in self.grids) + len(self.without)
        return "all methods" if len(grid.labels) == known else ", ".join(grid.labels)


def staleness_chart(run: Run) -> StalenessChart | None:
    """Return the staleness of what arrived; None where nothing arrived yet."""
    grids = arrival_grids(run)
    if not grids:
        return None
    return StalenessChart(
        run.last_round,
        tuple(grid for grid in grids if grid.has_stale),
        tuple(label for grid in grids if not grid.has_stale for label in grid.labels),
    )


def arrival_grids(run: Run) -> list[Arrivals]:
    """Return one grid for each distinct pattern of arrivals, the most shared first."""
    groups: list[tuple[list[str], dict[_Step, _Ages]]] = []
    for method in run.methods:
        met = {
            (record.number, seed): record.staleness
            for seed, rounds in run.rounds.get(method.label, {}).items()
            for record in rounds
        }
        if not met:
            continue
        for labels, known in groups:
            if _agree(met, known):
                labels.append(method.label)
                known.update(met)
                break
        else:
            groups.append(([method.label], met))
    groups.sort(key=lambda group: -len(group[0]))
    return [arrival_grid(labels, known) for labels, known in groups]


def _agree(one: Mapping[_Step, _Ages], other: Mapping[_Step, _Ages]) -> bool:
    """Whether both met the same where both have been: one may have got further."""
    shared = one.keys() & other.keys()
    return bool(shared) and all(one[step] == other[step] for step in shared)


def arrival_grid(labels: list[str], known: Mapping[_Step, _Ages]) -> Arrivals:
    """Return the grid of `known`: counts of updates by staleness, by (round, seed)."""
    by_round: dict[int, list[_Ages]] = {}
    for (number, _), ages in known.items():
        by_round.setdefault(number, []).append(ages)
    numbers = sorted(by_round)
    oldest = max(max(ages, default=0) for ages in known.values())
    width = max(1, math.ceil(oldest / MAX_ROWS))
    num_rows = 1 + math.ceil(oldest / width)
    step = max(1, math.ceil(len(numbers) / MAX_COLUMNS))
    columns = []
    for start in range(0, len(numbers), step):
        chunk = numbers[start : start + step]
        columns.append(_column(chunk, [r for n in chunk for r in by_round[n]], width, num_rows))
    return Arrivals(tuple(labels), width, tuple(columns))


def _column(chunk: list[int], records: list[_Ages], width: int, num_rows: int) -> Column:
    rows = [0.0] * num_rows
    total = ages = highest = 0
    for ages_met in records:
        for age, n in ages_met.items():
            rows[math.ceil(age / width)] += n / len(records)
            total += n
            ages += age * n
            highest = max(highest, age if n else 0)
    return Column(chunk[0], chunk[-1], ages / total if total else 0.0, highest, tuple(rows))
