"""Samples of the surrogates that a method kept of some clients, and how they can be shown."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from unstale.report.records import Run, Scenario
from unstale.run_folder import SurrogateSamples

# A file may hold more; a page has to be opened on a phone.
MAX_CLIENTS, MAX_SAMPLES = 6, 8
# Signals of more channels, and of fewer steps, are rather tables than lines.
MAX_CHANNELS, MIN_STEPS = 12, 8


@dataclass(frozen=True, slots=True)
class Gallery:
    """Surrogates of one method under one seed."""

    label: str
    """The method."""
    seed: int
    """The first seed that has any."""
    surrogates: tuple[SurrogateSamples, ...]
    """One for each client; at least one, none without samples."""
    scenario: Scenario | None
    """What the clients of that seed really hold, where the run tells."""

    key = "surrogates"


def galleries(run: Run) -> list[Gallery]:
    """Return the surrogates of each method that kept any, under its first seed."""
    found = []
    for method in run.methods:
        for seed, surrogates in run.surrogates.get(method.label, {}).items():
            kept = tuple(_some(one) for one in surrogates if one.x)[:MAX_CLIENTS]
            if kept:
                found.append(Gallery(method.label, seed, kept, run.scenarios.get(seed)))
                break
    return found


def _some(surrogate: SurrogateSamples) -> SurrogateSamples:
    return dataclasses.replace(
        surrogate, x=surrogate.x[:MAX_SAMPLES], labels=surrogate.labels[:MAX_SAMPLES]
    )


def kind_of(shape: Sequence[int]) -> str:
    """Return how an input of this shape is drawn: `image`, `signal`, or not at all.

    Example:
        >>> [kind_of(shape) for shape in ((1, 8, 8), (3, 32, 32), (6, 128), (225,), (2, 3, 4, 5))]
        ['image', 'image', 'signal', 'signal', '']
    """
    if len(shape) == 3 and shape[0] in (1, 3):
        return "image"
    if len(shape) == 1 and shape[0] >= MIN_STEPS:
        return "signal"
    if len(shape) == 2 and shape[0] <= MAX_CHANNELS and shape[1] >= MIN_STEPS:
        return "signal"
    return ""


def levels(surrogate: SurrogateSamples, sample: int) -> list[float]:
    """Return a sample's values scaled to 0 … 1 by the surrogate's bounds; values beyond are cut."""
    span = surrogate.high - surrogate.low or 1.0
    return [min(max((v - surrogate.low) / span, 0.0), 1.0) for v in surrogate.x[sample]]
