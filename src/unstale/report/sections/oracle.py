"""What only a simulation can know: how far updates are from the true fresh ones."""

from collections.abc import Callable
from typing import Any

from unstale.report.context import Context, Section
from unstale.report.markup import chart, series_data
from unstale.report.records import Round
from unstale.report.series import over_rounds

BEFORE, AFTER = "stale_cosine", "compensated_cosine"


def measured(key: str) -> Callable[[Round], float | None]:
    """Return what picks one of the oracle's measurements from a round."""
    return lambda record: record.oracle.get(key)


def build(context: Context) -> Section | None:
    """Build the section; None where the run did not measure it."""
    run = context.run
    lines: list[dict[str, Any]] = []
    for method in run.methods:
        by_seed = run.rounds.get(method.label, {})
        after, before = (over_rounds(by_seed, measured(key)) for key in (AFTER, BEFORE))
        if after:
            lines.append(series_data(method.label, after, digits=5))
        # A method that leaves updates as they are would have the same line twice.
        if before and before != after:
            line = series_data(method.label, before, digits=5)
            lines.append({**line, "variant": "as it arrived"})
    if not lines:
        return None
    spec = {
        "kind": "lines",
        "title": "Error of stale updates",
        "desc": "Cosine distance between the update the server used for a slow client and the "
        "one that client would have sent without delay, by round and method.",
        "x": {"label": "round", "max": run.last_round},
        "y": {"label": "cosine distance to the true fresh update", "min": 0, "digits": 4},
        "series": lines,
    }
    caption = (
        "Solid: the update as the method used it. Dotted: the same update as it arrived. "
        "Lower is better; no server can know this, only a simulation."
    )
    return Section("error", "Error of stale updates", chart(context, "update_error", spec, caption))
