"""Which clients switched back to stale updates, and how estimates compared before.

When a client's own update for a version arrives, the server can compare it with the
estimate it once used for that version, and with the stale update it had then.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from unstale.report.figures.lines import Axis, Line, LineChart, drawable, log_axis, rounds_axis
from unstale.report.figures.series import Series, over_rounds
from unstale.report.records import Method, Round, Run
from unstale.run_folder.schema import Measured

Pick = Callable[[Measured], float | None]

# Lines of more clients than this cannot be told apart.
MAX_LINES = 60


@dataclass(frozen=True, slots=True)
class Share:
    """The estimate's share γ in what was used of one client, under one seed."""

    label: str
    """The method."""
    name: str
    """The client, and the seed where there are several; foreign text."""
    line: Series
    """γ by round."""


def gamma_chart(run: Run) -> LineChart | None:
    """Return γ by round of each client that switched back; None where nobody did."""
    switched = shares(run)
    if not switched:
        return None
    return LineChart(
        key="gamma",
        title="Share of the estimate by client",
        desc="How much of the estimate is in what was used of a client, by round: one line "
        "for each client that switched back. 1: the estimate alone. 0: the stale update alone.",
        x=rounds_axis(run),
        y=Axis("γ, the share of the estimate", low=0, high=1, digits=2),
        lines=tuple(Line(share.label, share.line, name=share.name) for share in switched),
        size="part",
        thin=True,
    )


# The chart's key and title, its axis, and what it shows of a comparison: the estimate's, then the
# stale update's. The first one is by `switching.disparity`, which decides; the cosine by default.
_LATE_TRUTHS: tuple[tuple[str, str, str, Pick, Pick], ...] = (
    (
        "late_truth",
        "What the server found out late",
        "error against what came later",
        lambda one: one.estimate_error,
        lambda one: one.stale_error,
    ),
    (
        "late_truth_l1",
        "What the server found out late, by L1",
        "relative L1 error against what came later",
        lambda one: one.estimate_l1,
        lambda one: one.stale_l1,
    ),
)


def late_truth_charts(run: Run) -> list[LineChart]:
    """Return the errors that the server could measure later; those that the run has."""
    charts = []
    for key, title, label, estimate, stale in _LATE_TRUTHS:
        lines = drawable(
            (
                Line(m.label, over_rounds(run.rounds.get(m.label, {}), _mean_error(pick)), variant)
                for m in run.methods
                for pick, variant in ((estimate, ""), (stale, "stale update"))
            ),
            log=True,
        )
        if lines:
            charts.append(
                LineChart(
                    key=key,
                    title=title,
                    desc="Error of earlier estimates, and of the stale updates that were at hand "
                    "then, against the client's own update that came later; by the round in "
                    "which it came.",
                    x=rounds_axis(run),
                    y=log_axis(label),
                    lines=tuple(lines),
                    size="part",
                )
            )
    return charts


def _mean_error(pick: Pick) -> Callable[[Round], float | None]:
    """Return a function that gives the mean of an error over a round's comparisons."""

    def mean(record: Round) -> float | None:
        values = [value for one in record.measured if (value := pick(one)) is not None]
        return statistics.fmean(values) if values else None

    return mean


def shares(run: Run) -> list[Share]:
    """Return the clients that switched back; the first ones where there are too many."""
    found = []
    for method in run.methods:
        for seed, rounds in run.rounds.get(method.label, {}).items():
            switched = sorted({client for record in rounds for client in record.gamma})
            for client in switched:
                points = [
                    (record.number, gamma)
                    for record in rounds
                    if (gamma := _gamma(record, client)) is not None
                ]
                x, y = tuple(p[0] for p in points), tuple(p[1] for p in points)
                name = client if len(run.seeds) == 1 else f"{client}, seed {seed}"
                found.append(Share(method.label, name, Series(x, y, y, y)))
    return found[:MAX_LINES]


def _gamma(record: Round, client: str) -> float | None:
    """Return γ where the client sent something: 1 for a conversion that was used whole."""
    if client in record.gamma:
        return record.gamma[client]
    return 1.0 if any(one.client == client for one in record.converted) else None


def verdicts(run: Run, method: Method) -> tuple[int, int]:
    """Return how often an estimate turned out better than the stale update, and of how many."""
    pairs = [
        (one.estimate_error, one.stale_error)
        for rounds in run.rounds.get(method.label, {}).values()
        for record in rounds
        for one in record.measured
        if one.estimate_error is not None and one.stale_error is not None
    ]
    return sum(estimate < stale for estimate, stale in pairs), len(pairs)
