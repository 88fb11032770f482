"""Training time: the round from which a target is held to the end, and rounds saved.

The first round at a target says little: an unsteady method crosses it by luck and falls below
again. Time is therefore the first round r such that the *smoothed* accuracy is at least the
target in r and in every evaluated round after it, up to the end of the run.

The smoothed accuracy of a round is the mean over the evaluated rounds among the last `window`
rounds, itself included (a trailing mean: it looks at nothing that comes later). In the first
rounds there are fewer of them. If the model is evaluated every e rounds, the mean has about
window / e values, and the time is late by at most e − 1 rounds; with e ≥ window nothing is
smoothed.

Rounds saved compare two methods seed by seed: a method that holds the target from round r, where
the reference holds it from round s, saves s − r rounds, a share of 1 − r / s. The paper gives
training time in percent of that of its own method: 100·r / s with its method as the reference,
which is 100 minus the percentage saved.
"""

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

WINDOW = 10
"""How many rounds the accuracy is smoothed over, if an experiment does not say."""
# A mean of values that equal the target may be below it by rounding.
_ROUNDING = 1e-9


def held_from(
    points: Iterable[tuple[int, float]], target: float, window: int = WINDOW
) -> int | None:
    """Return the round from which a smoothed accuracy holds a target to the end of the run.

    Args:
        points: Round and accuracy of every round that was evaluated.
        target: The accuracy to hold.
        window: How many rounds the accuracy is smoothed over.

    Returns:
        An evaluated round; None if the smoothed accuracy ends below the target, or nothing was
        evaluated.

    Example:
        >>> lucky = [(1, 0.1), (2, 0.9), (3, 0.1), (4, 0.9), (5, 0.9), (6, 0.9)]
        >>> held_from(lucky, target=0.8, window=1), held_from(lucky, target=0.8, window=2)
        (4, 5)
    """
    known = sorted(points)
    found = None
    for end in range(len(known), 0, -1):
        last = known[end - 1][0]
        near = [value for at, value in known[max(0, end - window) : end] if at > last - window]
        if not math.fsum(near) / len(near) >= target - _ROUNDING:
            break
        found = last
    return found


@dataclass(frozen=True, slots=True)
class Saved:
    """How many rounds a method saves compared with another one."""

    rounds: float
    """The mean number of rounds; negative if the method takes longer."""
    share: float
    """The mean share of the other method's rounds."""
    spread: float | None
    """The sample standard deviation of the share over seeds; None for a single seed."""
    seeds: int
    """How many seeds the means are over: those in which both methods hold the target."""


def rounds_saved(
    own: Mapping[int, float | None], reference: Mapping[int, float | None]
) -> Saved | None:
    """Compare the times of two methods, seed by seed.

    Args:
        own: `held_from` of the method by seed.
        reference: The same of the method to compare with.

    Returns:
        Means over the seeds in which both hold the target; None if there is no such seed.

    Example:
        >>> saved = rounds_saved({0: 60, 1: 75, 2: None}, {0: 120, 1: 100, 2: 90})
        >>> saved.rounds, saved.share, saved.seeds
        (42.5, 0.375, 2)
    """
    pairs = [
        (r, s)
        for seed, r in own.items()
        if r is not None and (s := reference.get(seed)) is not None
    ]
    if not pairs:
        return None
    shares = [1 - r / s for r, s in pairs]
    return Saved(
        rounds=statistics.fmean(s - r for r, s in pairs),
        share=statistics.fmean(shares),
        spread=statistics.stdev(shares) if len(shares) > 1 else None,
        seeds=len(pairs),
    )
