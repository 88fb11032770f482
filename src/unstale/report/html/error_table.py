"""The table of errors against the truth, in both distances."""

import statistics
from collections.abc import Callable

from unstale.report.figures.errors import DISTANCES, oracle_figure
from unstale.report.html.tables import Cell, Column, Row, Table, decimal
from unstale.report.records import Method, Round, Run


def error_table(run: Run) -> Table | None:
    """Return the median errors of stale updates as they arrived and as they were used.

    A distance that a run of before did not measure has dashes.
    """
    rows = []
    for method in run.methods:
        pairs = [
            [
                _median(run, method, oracle_figure(what, distance))
                for what in ("stale", "compensated")
            ]
            for distance in DISTANCES
        ]
        if any(before is not None and after is not None for before, after in pairs):
            cells = [cell for before, after in pairs for cell in _cells(before, after)]
            rows.append(Row(method.label, tuple(cells)))
    columns = tuple(
        Column(title, distance.name)
        for distance in DISTANCES
        for title in ("As it arrived", "As used", "Smaller by")
    )
    return Table("Median error", columns, tuple(rows)) if rows else None


def _cells(before: float | None, after: float | None) -> tuple[Cell, ...]:
    gained = before is not None and after is not None and 0 < after < before * 0.95
    gain = f"{before / after:,.1f} ×" if gained and before and after else "–"
    return (
        Cell(decimal(before, 4), quiet=before is None),
        Cell(decimal(after, 4), quiet=after is None),
        Cell(gain),
    )


def _median(run: Run, method: Method, pick: Callable[[Round], float | None]) -> float | None:
    values = [
        value
        for rounds in run.rounds.get(method.label, {}).values()
        for record in rounds
        if (value := pick(record)) is not None
    ]
    return statistics.median(values) if values else None
