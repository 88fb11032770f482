"""Who switched back to stale updates, and what late truth said before."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from unstale.report.conversions import Measured
from unstale.report.records import Method, Round, Run
from unstale.report.series import Series

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


def found_late(pick: Callable[[Measured], float | None]) -> Callable[[Round], float | None]:
    """Return what picks the mean of an error that was measured in a round."""

    def mean(record: Round) -> float | None:
        values = [value for one in record.measured if (value := pick(one)) is not None]
        return statistics.fmean(values) if values else None

    return mean


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
