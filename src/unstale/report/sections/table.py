"""The summary table: one row for each method, the best of each column marked."""

from collections.abc import Sequence
from dataclasses import dataclass

from unstale.report.context import Context, Section
from unstale.report.markup import decimal, method_tag, table, text, whole
from unstale.report.records import Method


@dataclass(frozen=True, slots=True)
class _Column:
    metric: str
    title: str
    note: str
    digits: int | None = None
    best: int = 0
    """1 where the highest is best, -1 where the lowest is, 0 where neither."""


# Columns that mean nothing where nobody says which classes are affected.
_OF_AFFECTED = ("affected_mean", "affected_accuracy", "rounds_to_target")


def build(context: Context) -> Section | None:
    """Build the table from the run's summary, or from its rounds so far."""
    run = context.run
    several = len(run.seeds) > 1
    target = "target" if run.target is None else decimal(run.target)
    columns = [
        _Column("affected_mean", "Affected class", "second half of rounds", 3, 1),
        _Column("affected_accuracy", "Affected class", "last fifth", 3, 1),
        _Column("accuracy", "All classes", "last fifth", 3, 1),
        _Column("rounds_to_target", "Rounds", f"to reach {target}", best=-1),
        _Column("conversions", "Conversions", "per seed" if several else "in all"),
        _Column("iterations", "Iterations", "per seed" if several else "in all"),
    ]
    columns = [
        column
        for column in columns
        if column.digits is not None
        or column.best
        or any(context.summary.value(method, column.metric) for method in run.methods)
    ]
    if not run.knows_affected:
        columns = [column for column in columns if column.metric not in _OF_AFFECTED]
    lead = columns[0].metric
    rows = [m for m in run.methods if m.label in context.summary.methods]
    if not rows:
        return None
    rows.sort(key=lambda m: (not m.is_oracle, -(context.summary.value(m, lead) or 0)))
    best = {column.metric: _best(context, rows, column) for column in columns}
    head = ['<th scope="col">Method</th>']
    head += [
        f'<th scope="col" class="num">{text(c.title)}<small>{text(c.note)}</small></th>'
        for c in columns
    ]
    time = "seconds, all seeds" if several else "seconds"
    head.append(f'<th scope="col" class="num">Time<small>{time}</small></th>')
    body = []
    for method in rows:
        cells = [
            _cell(context, method, column, best[column.metric], with_bar=column.metric == lead)
            for column in columns
        ]
        cells.append(f'<td class="num">{_seconds(context, method)}</td>')
        kind = ' class="oracle"' if method.is_oracle else ""
        name = method_tag(context, method.label) + _state(context, method)
        body.append(f'<tr{kind}><th scope="row">{name}</th>{"".join(cells)}</tr>')
    notes = []
    if context.summary.provisional:
        furthest = ", of those seeds that got furthest" if several else ""
        notes.append(f"Provisional: from the rounds so far{furthest}.")
    if several:
        notes.append("Means over seeds ± standard deviation.")
    elif not run.nodes:  # real clients come once: nobody expects a spread
        notes.append("One seed, so no spread.")
    if any(best.values()):
        notes.append("<b class=best>Marked</b>: the best method that has to live with the delay.")
    note = f"<p class=note>{' '.join(notes)}</p>" if notes else ""
    return Section("summary", "Summary", table(head, body, kind="summary") + note)


def _state(context: Context, method: Method) -> str:
    """Say how far a method is that has not gone through all rounds under any seed."""
    run = context.run
    if run.finished or run.is_through(method):
        return ""
    return f"<small>at round {run.reached(method.label)} of {run.last_round}</small>"


def _best(context: Context, rows: Sequence[Method], column: _Column) -> str | None:
    if not column.best:
        return None
    scored = [
        (value * column.best, method.label)
        for method in rows
        if not method.is_oracle
        and (context.run.finished or context.run.is_through(method))
        and (value := context.summary.value(method, column.metric)) is not None
    ]
    return max(scored, key=lambda pair: pair[0])[1] if len(scored) > 1 else None


def _cell(
    context: Context, method: Method, column: _Column, best: str | None, *, with_bar: bool
) -> str:
    value = context.summary.value(method, column.metric)
    spread = context.summary.spread(method, column.metric)
    if value is None and column.metric == "rounds_to_target":
        return f'<td class="num"><span class="quiet">{_reached(context, method)}</span></td>'
    shown = whole(value) if column.digits is None else decimal(value, column.digits)
    if column.digits is None and value == 0:
        return '<td class="num"><span class="quiet">0</span></td>'
    if method.label == best:
        shown = f'<b class="best">{shown}</b>'
    if spread is not None and value is not None and (column.digits is not None or spread > 0):
        shown += f' <span class="spread">± {decimal(spread, column.digits or 1)}</span>'
    bar = ""
    if with_bar and value is not None:
        style = context.styles[method.label].css
        bar = f'<i class="bar" style="{style};--v:{min(max(value, 0), 1):.4f}"></i>'
    return f'<td class="num">{shown}{bar}</td>'


def _reached(context: Context, method: Method) -> str:
    """Say how many seeds reached the target, where not all did."""
    seeds = context.summary.methods[method.label].target_rounds
    some = sum(at is not None for at in seeds)
    return f"{some} of {len(seeds)} seeds" if some else "not reached"


def _seconds(context: Context, method: Method) -> str:
    recorded = context.run.seconds.get(method.label)
    if recorded is None:
        by_seed = context.run.rounds.get(method.label, {})
        recorded = sum(r.seconds for rounds in by_seed.values() for r in rounds)
    return decimal(recorded, 1) if recorded < 100 else whole(round(recorded))
