"""Tables of stand-ins: one row for each method, and one for each client of one seed."""

import statistics

from unstale.report.figures.errors import DISTANCES, Distance, oracle_figure
from unstale.report.figures.standing_in import (
    error_of,
    max_age,
    mean_over,
    rounds_of,
    standing_in,
    stood_in_for,
)
from unstale.report.html.tables import Cell, Column, Row, Table, counted, decimal, whole
from unstale.report.records import Method, Run

# Rows of clients that a page shows in all, and at least for each method.
MAX_ROWS, MIN_CLIENTS = 36, 3
# What the columns of errors hold, in the order of `DISTANCES`.
_MEANS = ("mean cosine", "mean L1")


def stand_in_table(run: Run) -> Table | None:
    """Return how often each method stood in, how old and how far off that was; None if none did."""
    methods = standing_in(run)
    if not methods:
        return None
    per = "per seed" if len(run.seeds) > 1 else ""
    truth = any(_true_error(run, m, d) is not None for m in methods for d in DISTANCES)
    columns = (
        Column("Absent", per),
        Column("Stood in", per),
        Column("Age", "mean"),
        Column("Oldest", "versions"),
        Column("Weight", "mean"),
        Column("Scaled", "mean"),
        Column("Checked", per),
        *(Column("Error found", note) for note in _MEANS),
        *(Column("True error", note) for note in _MEANS if truth),
    )
    return Table("Method", columns, tuple(_row(run, m, with_truth=truth) for m in methods))


def _row(run: Run, method: Method, *, with_truth: bool) -> Row:
    seeds = len(run.rounds[method.label])
    rounds = list(rounds_of(run, method))
    checks = sum(len(record.checked) for record in rounds)
    cells = (
        counted(sum(record.absent for record in rounds) / seeds),
        counted(sum(len(record.stand_ins) for record in rounds) / seeds),
        Cell(decimal(mean_over(run, method, lambda r: (one.age for one in r.stand_ins)), 1)),
        Cell(whole(max(age for r in rounds if (age := max_age(r)) is not None))),
        Cell(decimal(mean_over(run, method, lambda r: (one.weight for one in r.stand_ins)), 2)),
        Cell(decimal(mean_over(run, method, lambda r: (one.scale for one in r.stand_ins)), 2)),
        counted(checks / seeds),
        *(_error_cell(_found_error(run, method, distance)) for distance in DISTANCES),
        *(_error_cell(_true_error(run, method, d)) for d in DISTANCES if with_truth),
    )
    return Row(method.label, cells)


def _error_cell(error: float | None) -> Cell:
    return Cell(decimal(error, 4), quiet=error is None)


def _found_error(run: Run, method: Method, distance: Distance) -> float | None:
    return mean_over(run, method, lambda r: (error_of(one, distance) for one in r.checked))


def _true_error(run: Run, method: Method, distance: Distance) -> float | None:
    pick = oracle_figure("stand_in", distance)
    return mean_over(run, method, lambda r: [pick(r)])


def stood_in_table(run: Run) -> Table | None:
    """Return whom each method stood in for under one seed, most often first; None if none did."""
    methods = standing_in(run)
    if not methods:
        return None
    most = max(MIN_CLIENTS, MAX_ROWS // len(methods))
    rows = []
    for method in methods:
        _, clients = stood_in_for(run, method)
        often = clients[0].times
        for one in clients[:most]:
            cells = (
                Cell(one.client, kind=""),
                Cell(whole(one.times), bar=f"--c:var(--heat);--v:{one.times / often:.3f}"),
                Cell(decimal(one.mean_age, 1)),
                Cell(whole(one.max_age)),
                Cell(decimal(one.mean_weight, 2)),
                Cell(decimal(one.mean_scale, 2)),
                counted(one.own),
                counted(len(one.errors)),
                *(_error_cell(statistics.fmean(e) if e else None) for e in (one.errors, one.l1)),
            )
            rows.append(Row(method.label, cells))
        if rest := clients[most:]:
            told = Cell(f"{len(rest):,} more", "quiet")
            times = Cell(whole(sum(one.times for one in rest)))
            rows.append(Row(method.label, (told, times, *[Cell("")] * 8)))
    columns = (
        Column("Client", kind=""),
        Column("Stood in", "times"),
        Column("Age", "mean"),
        Column("Oldest", "versions"),
        Column("Weight", "mean"),
        Column("Scaled", "mean"),
        Column("Own updates"),
        Column("Checked"),
        *(Column("Error found", note) for note in _MEANS),
    )
    return Table("Method", columns, tuple(rows))


def shown_seed(run: Run) -> int | None:
    """Return the seed of the table of clients; None if all methods have none, or several."""
    seeds = {stood_in_for(run, method)[0] for method in standing_in(run)}
    return seeds.pop() if len(seeds) == 1 else None
