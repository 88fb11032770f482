"""Builds the page of several runs: one chart of all methods, one table, and what differs."""

from unstale.report.compare import ComparedRuns
from unstale.report.html.page import environment, frame
from unstale.report.html.summary_table import explain_time, summary_table
from unstale.report.html.tables import Cell, Column, Row, Table, class_table
from unstale.report.summarise import Finding, find
from unstale.run_folder.best import NEAR


def build_comparison(comparison: ComparedRuns) -> str:
    """Return the whole page as HTML."""
    context = comparison.context
    figures = context.figures
    return (
        environment()
        .get_template("compare.html")
        .render(
            **frame(context),
            title=" · ".join(comparison.names),
            comparison=comparison,
            run=context.run,
            figures=figures,
            styles=context.styles,
            plots=context.plots,
            several=len(context.run.seeds) > 1,
            finding=_finding(comparison),
            provisional=context.summary.provisional,
            summary=summary_table(context, mark=comparison.same),
            time_note=explain_time(context),
            near=f"{NEAR:g}",
            classes=class_table(context.run, figures.classes) if figures.classes else None,
            runs=_runs(comparison),
            differing=_differing(comparison),
        )
    )


def _finding(comparison: ComparedRuns) -> Finding | None:
    """Return what the methods reach, where there is one case to tell it of."""
    oracles = [m for m in comparison.context.run.methods if m.is_oracle]
    if not comparison.same or len(oracles) > 1:
        return None
    return find(comparison.context.run, comparison.context.summary)


def _runs(comparison: ComparedRuns) -> Table:
    """Return one row for each run: what it is, how long, how far."""
    rows = []
    optimized = any(run.optimizer for run in comparison.runs)
    for name, run in zip(comparison.names, comparison.runs, strict=True):
        commit = str(run.environment.get("commit") or "–")
        cells = (
            Cell(run.title, "words"),
            *([Cell(run.optimizer or "plain", "words")] if optimized else []),
            Cell(str(len(run.methods))),
            Cell(str(run.last_round)),
            Cell(", ".join(map(str, run.seeds))),
            Cell("finished" if run.finished else "unfinished", "", quiet=run.finished),
            Cell(commit if len(commit) <= 14 else f"{commit[:12]}…", ""),
        )
        rows.append(Row(name, cells, is_method=False))
    columns = (
        Column("Title", kind=""),
        *([Column("Server optimizer", kind="")] if optimized else []),
        Column("Methods"),
        Column("Rounds"),
        Column("Seeds"),
        Column("State", kind=""),
        Column("Commit", kind=""),
    )
    return Table("Run", columns, tuple(rows))


def _differing(comparison: ComparedRuns) -> Table | None:
    """Return the settings that differ, one column for each run; None if none does."""
    if comparison.same:
        return None
    rows = (
        Row(one.key, tuple(Cell(value, "words") for value in one.values), is_method=False)
        for one in comparison.differing
    )
    columns = tuple(Column(name, kind="") for name in comparison.names)
    return Table("Setting", columns, tuple(rows))
