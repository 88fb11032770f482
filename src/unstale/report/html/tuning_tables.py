"""The tables of tuning: one for each tuned method, one row for each setting that was tried."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unstale.report.html.tables import Cell, Column, Row, Table, decimal
from unstale.report.records import Run
from unstale.run_folder.tuning import Try, TunedMethod, TuningRecord
from unstale.run_folder.tuning_words import extent_in_words, seeds_in_words, value_in_words

# Rows of one table; of longer ones the best are shown.
MAX_ROWS = 30


@dataclass(frozen=True, slots=True)
class MethodTable:
    """What was tried of one method."""

    label: str
    """The method's label."""
    extent: str
    """How many of its settings were tried, in words."""
    table: Table
    """One row for each try."""
    left_out: int
    """Tries that are not shown."""
    unsound: bool
    """Whether all tries diverged or failed, so that none was chosen."""


@dataclass(frozen=True, slots=True)
class TuningSection:
    """The section on tuning."""

    record: TuningRecord | None
    """What was tried; None if methods list settings and the run did not use them."""
    seeds: str
    """The tuning seeds, in words."""
    tables: tuple[MethodTable, ...]
    """One for each tuned method."""
    untuned: tuple[str, ...]
    """Labels of methods that ran with the settings of the file."""
    listing: tuple[str, ...]
    """Labels of those of them that list settings to try."""


def tuning_section(run: Run) -> TuningSection | None:
    """Return the section; None if nothing was tuned and no method lists settings."""
    listing = _listing(run.config)
    record = run.tuning
    if record is None and not listing:
        return None
    known = [method.label for method in run.methods]
    methods = {} if record is None else record.methods
    tuned = {label: one for label, one in methods.items() if label in known}
    untuned = tuple(label for label in known if label not in tuned)
    return TuningSection(
        record=record,
        seeds="" if record is None else seeds_in_words(record.seeds),
        tables=()
        if record is None
        else tuple(_method_table(label, one, record) for label, one in tuned.items()),
        untuned=untuned,
        listing=tuple(label for label in untuned if label in listing),
    )


def _listing(config: Mapping[str, Any]) -> set[str]:
    methods = config.get("methods")
    listed = methods if isinstance(methods, list) else []
    return {str(m.get("label")) for m in listed if isinstance(m, dict) and m.get("tune")}


def _method_table(label: str, one: TunedMethod, record: TuningRecord) -> MethodTable:
    keys = list(dict.fromkeys(key for tried in one.tries for key in tried.settings))
    best_first = sorted(
        range(len(one.tries)), key=lambda at: (at != one.chosen, -(one.tries[at].score or -1))
    )
    shown = sorted(best_first[:MAX_ROWS])
    columns = (
        *(Column(key) for key in keys),
        Column("Score"),
        Column("Affected class", "second half of rounds"),
        Column("All classes", "second half of rounds"),
        Column("Outcome", kind=""),
    )
    rows = tuple(
        Row(str(at + 1), _cells(one.tries[at], keys, at == one.chosen), is_method=False)
        for at in shown
    )
    return MethodTable(
        label=label,
        extent=extent_in_words(len(one.tries), one.size, record.budget),
        table=Table("Try", columns, rows, kind="tuning"),
        left_out=len(one.tries) - len(shown),
        unsound=record.finished and one.chosen is None,
    )


def _cells(tried: Try, keys: list[str], chosen: bool) -> tuple[Cell, ...]:
    figures = tried.figures
    said = "chosen" if chosen else tried.fault
    return (
        # A key that a listed try leaves out stays at the method's own value.
        *(
            Cell(value_in_words(tried.settings[key]), best=chosen)
            if key in tried.settings
            else Cell("own", quiet=True)
            for key in keys
        ),
        Cell(decimal(tried.score, 3), best=chosen, quiet=tried.score is None),
        Cell(decimal(figures.get("affected_mean"), 3)),
        Cell(decimal(figures.get("accuracy_mean"), 3)),
        Cell(said, kind="", quiet=bool(tried.fault)),
    )
