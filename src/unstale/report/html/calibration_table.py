"""The table of calibration: what the server found of conversions, by lag."""

import statistics
from collections import Counter
from collections.abc import Sequence

from unstale.report.html.tables import Cell, Column, Row, Table, decimal, whole
from unstale.report.records import Method, Run
from unstale.run_folder.schema import Calibrated

# The last lag of each row but the last.
LAGS = (5, 10, 20, 40, 80)


def calibration_table(run: Run) -> Table | None:
    """Return what each method found of its conversions, by whose and at which lag; None if none."""
    rows = []
    for method in run.methods:
        found = _found(run, method)
        for late, by in sorted({(one.late, one.by) for one in found}):
            name = ("slow" if late else "fast") + (f", {by}" if by else "")
            for title, group in _by_lag([one for one in found if (one.late, one.by) == (late, by)]):
                rows.append(Row(method.label, (Cell(name, kind=""), Cell(title), *_cells(group))))
    columns = (
        Column("Clients", kind=""),
        Column("Lag", "versions"),
        Column("Comparisons", "all seeds"),
        Column("Stale", "mean error"),
        Column("Estimate", "mean error"),
        Column("Share", "mean of the best"),
    )
    return Table("Method", columns, tuple(rows)) if rows else None


def shares_used(run: Run) -> list[tuple[str, float, float, int]]:
    """Return, by method: mean, least and number of the shares that conversions were used with."""
    found = []
    for method in run.methods:
        shares = [
            one.share
            for rounds in run.rounds.get(method.label, {}).values()
            for record in rounds
            for one in record.converted
            if one.share is not None
        ]
        if shares:
            found.append((method.label, statistics.fmean(shares), min(shares), len(shares)))
    return found


def candidates_used(run: Run) -> list[tuple[str, list[tuple[str, int]]]]:
    """Return, by method with candidates: how many conversions were fitted by each.

    The name "" is the settings as they are; methods that used nothing else are left out.
    """
    found = []
    for method in run.methods:
        counts = Counter(
            one.by
            for rounds in run.rounds.get(method.label, {}).values()
            for record in rounds
            for one in record.converted
        )
        if set(counts) - {""}:
            found.append((method.label, sorted(counts.items())))
    return found


def _found(run: Run, method: Method) -> list[Calibrated]:
    return [
        one
        for rounds in run.rounds.get(method.label, {}).values()
        for record in rounds
        for one in record.calibrated
    ]


def _by_lag(found: Sequence[Calibrated]) -> list[tuple[str, list[Calibrated]]]:
    """Return the comparisons in groups of similar lag, each with its title."""
    groups = []
    for low, high in zip((0, *LAGS), (*LAGS, None), strict=True):
        group = [one for one in found if one.lag > low and (high is None or one.lag <= high)]
        if group:
            groups.append((f"over {low}" if high is None else f"{low + 1} to {high}", group))
    return groups


def _cells(group: Sequence[Calibrated]) -> tuple[Cell, ...]:
    def mean(values: Sequence[float | None], digits: int) -> Cell:
        known = [value for value in values if value is not None]
        return Cell(decimal(statistics.fmean(known) if known else None, digits))

    return (
        Cell(whole(len(group))),
        mean([one.stale_error for one in group], 4),
        mean([one.error for one in group], 4),
        mean([one.share for one in group], 2),
    )
