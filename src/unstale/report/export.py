"""The rounds of runs as CSV, for spreadsheets and data frames: a row per method, seed and round."""

import csv
import io
from collections.abc import Callable, Sequence

from unstale.report.records import Round, Run

# Names and values after `run`, `method`, `seed` and `round`; None is an empty cell.
COLUMNS: dict[str, Callable[[Round], object]] = {
    "version": lambda r: r.version,
    "accuracy": lambda r: r.accuracy,
    "affected_accuracy": lambda r: r.affected_accuracy,
    "loss": lambda r: r.loss,
    "arrivals": lambda r: r.arrivals,
    "stale": lambda r: r.stale,
    "refused": lambda r: sum(r.refused.values()),
    "dropped": lambda r: r.notes.get("dropped", 0),
    "fallbacks": lambda r: r.notes.get("fallback", 0),
    "conversions": lambda r: r.conversions,
    "iterations": lambda r: r.iterations,
    "stand_ins": lambda r: len(r.stand_ins),
    "seconds": lambda r: r.seconds,
}


def as_csv(names: Sequence[str], runs: Sequence[Run]) -> str:
    """Return the rounds of all runs, in the order of the runs, their methods, seeds and rounds.

    Numbers are written as they were recorded; rounds that were not evaluated have empty cells
    for accuracies and loss.

    Args:
        names: What goes into the column `run` of each run.
        runs: The runs, in the same order.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("run", "method", "seed", "round", *COLUMNS))
    for name, run in zip(names, runs, strict=True):
        for method in run.methods:
            for seed, rounds in run.rounds.get(method.label, {}).items():
                for record in rounds:
                    values = (pick(record) for pick in COLUMNS.values())
                    writer.writerow((name, method.label, seed, record.number, *values))
    return buffer.getvalue()
