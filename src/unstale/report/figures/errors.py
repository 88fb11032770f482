"""Errors of stale updates against the true fresh ones, which only a simulation knows.

They are given in two distances, as in the paper: by direction (cosine distance) and relative to the
size of the true update (L1). Runs of before have the first one only.
"""

from collections.abc import Callable
from dataclasses import dataclass

from unstale.report.figures.lines import Line, LineChart, drawable, log_axis, rounds_axis
from unstale.report.figures.series import over_rounds
from unstale.report.records import Round, Run


@dataclass(frozen=True, slots=True)
class Distance:
    """A way to measure how far an update is from another one."""

    key: str
    """Its name in the fields of a round's line."""
    name: str
    """Its name for people."""
    suffix: str = ""
    """What it adds to the key of a chart."""


COSINE = Distance("cosine", "cosine distance")
L1 = Distance("l1", "relative L1 error", "_l1")
DISTANCES = (COSINE, L1)


def oracle_figure(what: str, distance: Distance) -> Callable[[Round], float | None]:
    """Return a function that reads a round's oracle figure of what is `stale`, for instance."""
    return lambda record: record.oracle.get(f"{what}_{distance.key}")


def error_charts(run: Run) -> list[LineChart]:
    """Return how far stale updates are from the true fresh ones, in each distance that is known."""
    charts = (_error_chart(run, distance) for distance in DISTANCES)
    return [chart for chart in charts if chart is not None]


def _error_chart(run: Run, distance: Distance) -> LineChart | None:
    lines = []
    for method in run.methods:
        by_seed = run.rounds.get(method.label, {})
        used = over_rounds(by_seed, oracle_figure("compensated", distance))
        stale = over_rounds(by_seed, oracle_figure("stale", distance))
        lines.append(Line(method.label, used))
        # A method that leaves updates as they are would have the same line twice.
        if stale != used:
            lines.append(Line(method.label, stale, variant="as it arrived"))
    lines = drawable(lines, log=True)
    if not lines:
        return None
    name = distance.name[0].upper() + distance.name[1:]
    return LineChart(
        key=f"update_error{distance.suffix}",
        title=name,
        desc=f"{name} between the update the server used for a slow client and the one that "
        "client would have sent without delay, by round and method.",
        x=rounds_axis(run),
        y=log_axis(f"{distance.name} to the true fresh update"),
        lines=tuple(lines),
        size="part",
    )
