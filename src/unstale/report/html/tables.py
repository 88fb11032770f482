"""The model of a table, how numbers are written in it, and the tables of accuracy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from unstale.report.context import Context
from unstale.report.figures.classes import ClassAccuracy
from unstale.report.records import Method, Run


@dataclass(frozen=True, slots=True)
class Column:
    """The head of a column."""

    title: str
    """Its title."""
    note: str = ""
    """A second, smaller line."""
    kind: str = "num"
    """Its CSS classes."""
    marked: bool = False
    """Whether it has the mark of an affected class."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: a text and how it is set off."""

    text: str
    """What it says; foreign text is escaped by the template."""
    kind: str = "num"
    """Its CSS classes."""
    quiet: bool = False
    """Whether it stands back, such as a zero."""
    best: bool = False
    """Whether it is the best of its column."""
    spread: str = ""
    """The standard deviation over seeds."""
    bar: str = ""
    """The CSS variables of a bar below the text: its colour and its length."""
    style: str = ""
    """The CSS variables of the cell itself."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row, headed by a method's label or by another name."""

    head: str
    """That label or name; foreign text."""
    cells: tuple[Cell, ...]
    """As many as there are columns."""
    is_method: bool = True
    """Whether `head` is a method's label, which is shown with a sample of its line."""
    note: str = ""
    """A second, smaller line below the head."""
    oracle: bool = False
    """Whether it is the case without delay, which does not compete."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with row heads."""

    head: str
    """The title of the column of row heads."""
    columns: tuple[Column, ...]
    """The other columns."""
    rows: tuple[Row, ...]
    """Its rows."""
    kind: str = ""
    """Its CSS classes."""

    @property
    def marks_best(self) -> bool:
        """Whether any cell is marked as the best of its column."""
        return any(cell.best for row in self.rows for cell in row.cells)


def decimal(value: float | None, digits: int = 2) -> str:
    """Return a number for people, a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.{digits}f}"


def whole(value: float | None) -> str:
    """Return a count for people: digits only where a mean over seeds has them."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:,.1f}"


def counted(value: float) -> Cell:
    """Return the cell of a count; a zero stands back."""
    return Cell(whole(value)) if value else Cell("0", quiet=True)


def class_table(run: Run, accuracy: ClassAccuracy) -> Table:
    """Return accuracy of methods by classes, coloured, affected classes marked."""
    affected = accuracy.affected
    # Affected classes first: they are what the page is about, and all a phone has room for.
    order = sorted(range(len(accuracy.names)), key=lambda c: (c not in affected, c))
    kinds = {c: "num affected" if c in affected else "num" for c in order}
    oracles = {method.label for method in run.methods if method.is_oracle}
    columns = (Column(accuracy.names[c], kind=kinds[c], marked=c in affected) for c in order)
    rows = (
        Row(label, tuple(_shaded(row[c], kinds[c]) for c in order), oracle=label in oracles)
        for label, row in accuracy.rows.items()
    )
    return Table("Method", tuple(columns), tuple(rows), kind="heat")


def _shaded(value: float | None, kind: str) -> Cell:
    style = "" if value is None else f"--v:{min(max(value, 0), 1):.3f}"
    return Cell(decimal(value), kind, style=style)


@dataclass(frozen=True, slots=True)
class _Metric:
    """A column of the summary."""

    name: str
    title: str
    note: str
    digits: int | None = None
    best: int = 0
    """1 where the highest is best, -1 where the lowest is, 0 where neither."""


# Metrics that mean nothing where nobody says which classes are affected.
_OF_AFFECTED = ("affected_mean", "affected_accuracy", "rounds_to_target")


def summary_table(context: Context) -> Table | None:
    """Return the summary: one row for each method, the best of each column marked."""
    run, summary = context.run, context.summary
    metrics = _metrics(context)
    lead = metrics[0].name
    methods = [m for m in run.methods if m.label in summary.methods]
    if not methods:
        return None
    methods.sort(key=lambda m: (not m.is_oracle, -(summary.value(m, lead) or 0)))
    best = {metric.name: _best(context, methods, metric) for metric in metrics}
    time = "seconds, all seeds" if len(run.seeds) > 1 else "seconds"
    columns = [*(Column(metric.title, metric.note) for metric in metrics), Column("Time", time)]
    rows = []
    for method in methods:
        cells = [
            _cell(context, method, metric, best[metric.name] == method.label, metric.name == lead)
            for metric in metrics
        ]
        # How far a method is that has not gone through all rounds under any seed.
        behind = not run.finished and not run.is_through(method)
        note = f"at round {run.reached(method.label)} of {run.last_round}" if behind else ""
        row = (*cells, Cell(_seconds(run, method)))
        rows.append(Row(method.label, row, note=note, oracle=method.is_oracle))
    return Table("Method", tuple(columns), tuple(rows), kind="summary")


def _metrics(context: Context) -> list[_Metric]:
    run = context.run
    per = "per seed" if len(run.seeds) > 1 else "in all"
    target = "target" if run.target is None else decimal(run.target)
    metrics = [
        _Metric("affected_mean", "Affected class", "second half of rounds", 3, 1),
        _Metric("affected_accuracy", "Affected class", "last fifth", 3, 1),
        _Metric("accuracy", "All classes", "last fifth", 3, 1),
        _Metric("rounds_to_target", "Rounds", f"to reach {target}", best=-1),
        _Metric("conversions", "Conversions", per),
        _Metric("iterations", "Iterations", per),
        _Metric("stand_ins", "Stood in", per),
    ]
    return [
        metric
        for metric in metrics
        if (run.knows_affected or metric.name not in _OF_AFFECTED)
        and (metric.best or any(context.summary.value(m, metric.name) for m in run.methods))
    ]


def _best(context: Context, methods: Sequence[Method], metric: _Metric) -> str | None:
    """Return the label of the best method that has to live with the delay, if several do."""
    if not metric.best:
        return None
    scored = [
        (value * metric.best, method.label)
        for method in methods
        if not method.is_oracle
        and (context.run.finished or context.run.is_through(method))
        and (value := context.summary.value(method, metric.name)) is not None
    ]
    return max(scored, key=lambda pair: pair[0])[1] if len(scored) > 1 else None


def _cell(context: Context, method: Method, metric: _Metric, best: bool, with_bar: bool) -> Cell:
    value = context.summary.value(method, metric.name)
    if value is None and metric.name == "rounds_to_target":
        return Cell(_reached(context, method), quiet=True)
    if metric.digits is None and value == 0:
        return Cell("0", quiet=True)
    shown = whole(value) if metric.digits is None else decimal(value, metric.digits)
    spread = context.summary.spread(method, metric.name)
    told = spread is not None and value is not None and (metric.digits is not None or spread > 0)
    bar = ""
    if with_bar and value is not None:
        bar = f"{context.styles[method.label].css};--v:{min(max(value, 0), 1):.4f}"
    spread_text = decimal(spread, metric.digits or 1) if told else ""
    return Cell(shown, best=best, spread=spread_text, bar=bar)


def _reached(context: Context, method: Method) -> str:
    """Say how many seeds reached the target, where not all did."""
    seeds = context.summary.methods[method.label].target_rounds
    some = sum(at is not None for at in seeds)
    return f"{some} of {len(seeds)} seeds" if some else "not reached"


def _seconds(run: Run, method: Method) -> str:
    recorded = run.seconds.get(method.label)
    if recorded is None:
        by_seed = run.rounds.get(method.label, {})
        recorded = sum(r.seconds for rounds in by_seed.values() for r in rounds)
    return decimal(recorded, 1) if recorded < 100 else whole(round(recorded))
