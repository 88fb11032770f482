"""The table of the summary: accuracy, time and cost of every method, the best ones marked."""

from collections.abc import Collection
from dataclasses import dataclass

from unstale.report.context import Context
from unstale.report.html.tables import Cell, Column, Row, Table, decimal, whole
from unstale.report.records import Method, Run
from unstale.run_folder.best import Entrant, best_of


@dataclass(frozen=True, slots=True)
class _Metric:
    """A column of the summary."""

    name: str
    title: str
    note: str
    digits: int | None = None
    """Digits after the point; None for a count."""
    tip: str = ""
    """What it means."""
    always: bool = False
    """Whether the column is there even if no method has a value."""


# Metrics that mean nothing where nobody says which classes are affected.
_OF_AFFECTED = ("affected_mean", "affected_accuracy", "held_from", "share_saved")


def summary_table(context: Context, *, mark: bool = True) -> Table | None:
    """Return the summary: one row for each method, the best of each column marked.

    Args:
        context: What the page is made from.
        mark: Whether methods may be compared, so that the best are marked.
    """
    run, summary = context.run, context.summary
    metrics = _metrics(context)
    lead = metrics[0].name
    methods = [m for m in run.methods if m.label in summary.methods]
    if not methods:
        return None
    methods.sort(key=lambda m: (not m.is_oracle, -(summary.value(m, lead) or 0)))
    best = best_of(_entrants(context, methods) if mark else {})
    time = "seconds, all seeds" if len(run.seeds) > 1 else "seconds"
    columns = [*(Column(m.title, m.note, tip=m.tip) for m in metrics), Column("Time", time)]
    rows = []
    for method in methods:
        cells = [
            _cell(context, method, metric, best.get(metric.name, ()), metric.name == lead)
            for metric in metrics
        ]
        # How far a method is that has not gone through all rounds under any seed.
        behind = not run.finished and not run.is_through(method)
        note = f"at round {run.reached(method.label)} of {run.last_round}" if behind else ""
        row = (*cells, Cell(_seconds(run, method)))
        rows.append(Row(method.label, row, note=note, oracle=method.is_oracle))
    return Table("Method", tuple(columns), tuple(rows), kind="summary")


def explain_time(context: Context) -> str:
    """Say what the column of the target means; nothing where the run has no target."""
    run = context.run
    if run.target is None or not run.knows_affected:
        return ""
    smoothed = f", as a mean of the last {run.window} rounds," if run.window > 1 else ""
    among = " Over the seeds that do so." if len(run.seeds) > 1 else ""
    end = "the end" if run.finished else "the last round so far"
    return (
        f"Target held: the round from which accuracy in the affected classes{smoothed} is at "
        f"least {decimal(run.target)} to {end}.{among}"
    )


def explain_saved(context: Context) -> str:
    """Say what the column of rounds saved means; nothing where there is none."""
    run = context.run
    if not any(context.summary.value(m, "share_saved") is not None for m in run.methods):
        return ""
    among = ", over the seeds in which both hold it" if len(run.seeds) > 1 else ""
    return f"Rounds saved: as a share of those that {run.reference} takes to that{among}."


def _metrics(context: Context) -> list[_Metric]:
    run = context.run
    per = "per seed" if len(run.seeds) > 1 else "in all"
    target = "target" if run.target is None else decimal(run.target)
    against = f"against {run.reference}"
    metrics = [
        _Metric("affected_mean", "Affected class", "second half", 3, always=True),
        _Metric("affected_accuracy", "Affected class", "last fifth", 3, always=True),
        _Metric("accuracy", "All classes", "last fifth", 3, always=True),
        _Metric(
            "held_from", "Target held", f"{target}, from round", 0, explain_time(context), True
        ),
        _Metric("share_saved", "Rounds saved", against, 0, explain_saved(context)),
        _Metric("conversions", "Conversions", per),
        _Metric("iterations", "Iterations", per),
        _Metric("stand_ins", "Stood in", per),
    ]
    return [
        metric
        for metric in metrics
        if (run.knows_affected or metric.name not in _OF_AFFECTED)
        and (metric.always or any(_has(context, m, metric) for m in run.methods))
    ]


def _has(context: Context, method: Method, metric: _Metric) -> bool:
    """Return whether a method has a value to show; a count of 0 is none."""
    value = context.summary.value(method, metric.name)
    return bool(value) if metric.digits is None else value is not None


def _entrants(context: Context, methods: Collection[Method]) -> dict[str, Entrant]:
    """Return the methods that compete: those that live with the delay and are through."""
    found = {}
    for method in methods:
        if method.is_oracle or not (context.run.finished or context.run.is_through(method)):
            continue
        of = context.summary.methods[method.label]
        found[method.label] = Entrant(
            of.values,
            diverged=bool(of.values.get("diverged")),
            held_in_all=of.values.get("held_seeds") == of.seeds,
        )
    return found


def _cell(
    context: Context, method: Method, metric: _Metric, best: Collection[str], with_bar: bool
) -> Cell:
    value = context.summary.value(method, metric.name)
    if metric.name == "held_from":
        return _time_cell(context, method, best)
    if metric.name == "share_saved":
        return _saved_cell(context, method, best)
    if metric.digits is None and value == 0:
        return Cell("0", quiet=True)
    shown = whole(value) if metric.digits is None else decimal(value, metric.digits)
    spread = context.summary.spread(method, metric.name)
    told = spread is not None and value is not None and (metric.digits is not None or spread > 0)
    bar = ""
    if with_bar and value is not None:
        bar = f"{context.styles[method.label].css};--v:{min(max(value, 0), 1):.4f}"
    spread_text = decimal(spread, metric.digits or 1) if told else ""
    return Cell(shown, best=method.label in best, spread=spread_text, bar=bar)


def _time_cell(context: Context, method: Method, best: Collection[str]) -> Cell:
    of = context.summary.methods[method.label]
    value, spread = of.values.get("held_from"), of.spread.get("held_from")
    if not of.knows_time or context.run.target is None:
        return Cell("–", quiet=True)
    if value is None:
        return Cell("not held", quiet=True)
    held = int(of.values.get("held_seeds") or 0)
    return Cell(
        decimal(value, 0),
        best=method.label in best,
        spread="" if spread is None else decimal(spread, 0),
        note=f"{held} of {of.seeds} seeds" if held < of.seeds else "",
    )


def _saved_cell(context: Context, method: Method, best: Collection[str]) -> Cell:
    of = context.summary.methods[method.label]
    share, spread = of.values.get("share_saved"), of.spread.get("share_saved")
    if share is None:
        return Cell("–", quiet=True)
    seeds = int(of.values.get("saved_seeds") or 0)
    return Cell(
        f"{share:.0%}",
        best=method.label in best,
        spread="" if spread is None else f"{spread:.0%}",
        note=f"{seeds} of {of.seeds} seeds" if seeds < of.seeds else "",
    )


def _seconds(run: Run, method: Method) -> str:
    recorded = run.seconds.get(method.label)
    if recorded is None:
        by_seed = run.rounds.get(method.label, {})
        recorded = sum(r.seconds for rounds in by_seed.values() for r in rounds)
    return decimal(recorded, 1) if recorded < 100 else whole(round(recorded))
