"""Ensembles: several surrogates of one client, whose estimates are averaged.

Many data sets explain the same updates, and carry over to other weights each with an error of its
own. Where these errors differ, their mean is smaller than each. So a client can have m surrogates
(`Inversion.ensemble`): each is fitted alone, from a start of its own, and trained alone; what is
used is the mean of what their trainings change.

Outside this file an ensemble is one `Surrogate` that holds the samples of all members one after
the other, so that it is kept, saved, lent and shown as a single one is.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from statistics import fmean

import torch

from unstale.inversion.request import Fit, Request
from unstale.inversion.surrogate import Surrogate
from unstale.seeding import derive


def members_of(surrogate: Surrogate, count: int) -> list[Surrogate]:
    """Return the members of an ensemble: its samples in `count` parts of equal size.

    If the samples cannot be divided so, as after a change of settings, the first parts have one
    more; and there are fewer members than `count` where there are fewer samples.

    Example:
        >>> both = Surrogate(torch.arange(6.0).reshape(6, 1), torch.zeros(6, 2))
        >>> [member.x.flatten().tolist() for member in members_of(both, 2)]
        [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    """
    if count == 1:
        return [surrogate]
    count = min(count, len(surrogate))
    inputs, logits = surrogate.x.tensor_split(count), surrogate.y_logits.tensor_split(count)
    return [Surrogate(x, y) for x, y in zip(inputs, logits, strict=True)]


def requests_of(request: Request, count: int) -> list[Request]:
    """Return the request of each member: its part of earlier surrogates, and a seed of its own.

    The first member's seed is the request's, so that an ensemble of one is the plain fit.
    """
    if count == 1:
        return [request]
    warm = [] if request.warm is None else members_of(request.warm, count)
    lent = [] if request.borrowed is None else members_of(request.borrowed, count)
    return [
        replace(
            request,
            seed=derive(request.seed, "member", member) if member else request.seed,
            warm=warm[member] if member < len(warm) else None,
            borrowed=lent[member] if member < len(lent) else None,
        )
        for member in range(count)
    ]


def joined(fits: Sequence[Fit]) -> Fit:
    """Return the fits of all members as one.

    The best member takes the place of one that failed. Its loss is the mean of what members
    reached, its loss curve the mean of theirs, each continued at its last value, and its seconds
    are those of all.

    Example:
        >>> one = Surrogate(torch.zeros(2, 3), torch.zeros(2, 4))
        >>> both = joined([Fit(one, 0.1, (0.5, 0.1), 1.0), Fit(one, 0.3, (0.3,), 2.0)])
        >>> len(both.surrogate), both.loss, both.losses, both.seconds
        (4, 0.2, (0.4, 0.2), 3.0)
    """
    first = fits[0]
    if len(fits) == 1:
        return first
    good = [fit for fit in fits if fit.ok]
    seconds = sum(fit.seconds for fit in fits)
    if not good:
        return replace(first, seconds=seconds)
    best = min(good, key=lambda fit: fit.loss if math.isfinite(fit.loss) else math.inf)
    surrogates = [s for fit in fits if (s := fit.surrogate or best.surrogate) is not None]
    return Fit(
        Surrogate(
            torch.cat([s.x for s in surrogates]), torch.cat([s.y_logits for s in surrogates])
        ),
        fmean(fit.loss for fit in good),
        _mean_curve([fit.losses for fit in good]),
        seconds,
        warm=all(fit.warm for fit in good),
    )


def _mean_curve(curves: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return the mean of curves; one that is over counts with its last value."""
    found: list[float] = []
    now = [curve[0] for curve in curves if curve]
    known = [curve for curve in curves if curve]
    for values in zip_longest(*known):
        now = [last if value is None else value for value, last in zip(values, now, strict=True)]
        found.append(fmean(now))
    return tuple(found)
