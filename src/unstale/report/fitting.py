"""How well surrogates were fitted, and what that took."""

import bisect
import statistics
from collections.abc import Sequence

from unstale.report.conversions import Converted
from unstale.report.records import Round
from unstale.report.series import BySeed, Series

# Points on a curve; they are dense at the start, where the loss falls.
POINTS = 28

Curve = Sequence[tuple[int, float]]


def loss_reached(record: Round) -> float | None:
    """Return the mean loss that a round's conversions reached, if it had any."""
    found = [one.loss for one in record.converted if one.loss is not None]
    return statistics.fmean(found) if found else None


def iterations_taken(record: Round) -> float | None:
    """Return the mean iterations of a round's conversions, if it had any."""
    found = [one.iterations for one in record.converted]
    return statistics.fmean(found) if found else None


def conversions(by_seed: BySeed) -> list[Converted]:
    """Return all conversions of a method."""
    return [one for rounds in by_seed.values() for record in rounds for one in record.converted]


def mean_curve(by_seed: BySeed, *, warm: bool) -> Series:
    """Return the loss by iteration: the mean, lowest and highest over the recorded curves.

    A fit that stopped early keeps the loss it had.
    """
    curves = [one.curve for one in conversions(by_seed) if one.curve and one.warm is warm]
    if not curves:
        return Series((), (), (), ())
    last = max(curve[-1][0] for curve in curves)
    grid = sorted({round(last ** (i / (POINTS - 1))) for i in range(POINTS)})
    values = [[_at(curve, iteration) for curve in curves] for iteration in grid]
    return Series(
        tuple(grid),
        tuple(statistics.fmean(v) for v in values),
        tuple(min(v) for v in values),
        tuple(max(v) for v in values),
    )


def _at(curve: Curve, iteration: int) -> float:
    """Return the loss at an iteration: on the line between the recorded ones."""
    i = bisect.bisect_left(curve, iteration, key=lambda point: point[0])
    if i == 0 or i == len(curve):
        return curve[min(i, len(curve) - 1)][1]
    (before, high), (after, low) = curve[i - 1], curve[i]
    return high + (low - high) * (iteration - before) / (after - before)
