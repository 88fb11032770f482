"""Figures by class: the examples that clients hold of each class, and the accuracy in each."""

import dataclasses
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from unstale.report.records import Client, Run, Scenario


@dataclass(frozen=True, slots=True)
class ClientChart:
    """Clients by classes, below the clients' latencies."""

    scenarios: tuple[Scenario, ...]
    """One for each seed, its clients the slowest first; at least one."""

    key = "clients"
    title = "Who is slow, and what they hold"
    desc = (
        "Clients from left to right, the slowest first. Bars above: how many rounds "
        "late their updates are. Cells below: how many examples of each class they hold."
    )


def client_chart(run: Run) -> ClientChart | None:
    """Return what the clients of each seed hold; None where no scenario was written."""
    found = tuple(
        dataclasses.replace(scenario, clients=tuple(_slowest_first(scenario)))
        for scenario in run.scenarios.values()
        if scenario.clients and scenario.classes
    )
    return ClientChart(found) if found else None


def _slowest_first(scenario: Scenario) -> list[Client]:
    """Order clients by latency, and those of one latency by the class they hold most of."""
    return sorted(
        scenario.clients,
        key=lambda c: (-c.latency, c.histogram.index(max(c.histogram)) if c.histogram else 0),
    )


@dataclass(frozen=True, slots=True)
class ClassAccuracy:
    """Methods by classes: accuracy, the mean over the last fifth of rounds and over seeds."""

    names: tuple[str, ...]
    """Names of the classes; foreign text."""
    affected: frozenset[int]
    """Positions of those whose data sits on slow clients."""
    rows: Mapping[str, tuple[float | None, ...]]
    """By method label, one value for each class; None where it was never evaluated."""

    key = "class_accuracy"


def class_accuracy(run: Run) -> ClassAccuracy | None:
    """Return accuracy by class; None where no class was evaluated yet."""
    found = {m.label: row for m in run.methods if (row := _accuracies(run, m.label))}
    if not found:
        return None
    width = max(len(row) for row in found.values())
    return ClassAccuracy(
        tuple(run.class_name(position) for position in range(width)),
        frozenset(position for position in run.affected if position < width),
        {label: (*row, *[None] * (width - len(row))) for label, row in found.items()},
    )


def _accuracies(run: Run, label: str) -> list[float | None]:
    """Return a method's accuracy by class: the mean over its last fifth of rounds and its seeds."""
    seeds: dict[int, list[float]] = {}
    width = 0
    for rounds in run.counted(label).values():
        found: dict[int, list[float]] = {}
        for record in rounds:
            if record.class_accuracy is None or record.number <= rounds[-1].number * 4 / 5:
                continue
            width = max(width, len(record.class_accuracy))
            for position, value in enumerate(record.class_accuracy):
                if value is not None:
                    found.setdefault(position, []).append(value)
        for position, values in found.items():
            seeds.setdefault(position, []).append(statistics.fmean(values))
    return [statistics.fmean(seeds[c]) if c in seeds else None for c in range(width)]
