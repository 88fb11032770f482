"""Candidates: variants of the inversion that probes try, and which of them conversions use.

Each probe is fitted by the inversion as it is set, under the name "", and by every candidate.
Once each of them has `ENOUGH` pairs, conversions use the one whose squared errors, as multiples
of the stale updates', are least in the mean.
"""

import dataclasses
import statistics

from unstale.inversion import Inversion
from unstale.methods.conversion.calibration import relative_error
from unstale.methods.conversion.calibration_book import Book
from unstale.methods.conversion.settings import CANDIDATES, Calibration

# Pairs that each candidate needs before they are compared.
ENOUGH = 4


def names(settings: Calibration) -> tuple[str, ...]:
    """Return the names under which probes are fitted; "" is the inversion as it is set."""
    return ("", *settings.candidates)


def inversion_of(name: str, inversion: Inversion) -> Inversion:
    """Return the inversion that a name stands for.

    Example:
        >>> inversion_of("gaussian", Inversion(lr=0.1)).start
        'gaussian'
    """
    return dataclasses.replace(inversion, **CANDIDATES[name]) if name else inversion


def best(book: Book, settings: Calibration) -> str:
    """Return the name of the inversion that conversions use."""
    errors: dict[str, list[float]] = {name: [] for name in names(settings)}
    for _, pairs in sorted(book["pairs"].items()):
        for pair in pairs:
            # All of them are compared on probes alone, which every one of them has fitted.
            if not pair["late"] and pair["by"] in errors:
                errors[pair["by"]].append(relative_error(pair))
    if min(map(len, errors.values())) < ENOUGH:
        return ""
    return min(errors, key=lambda name: statistics.fmean(errors[name]))
