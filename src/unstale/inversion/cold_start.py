"""Cold fits that try several starts: all of them for a while, then the chosen one to the end.

The starts of all clients are rows of the same batches, since the solver fits every row on
its own. A client's first start is preferred: many data sets explain one update, and the
plain one often carries over to other weights better than one with a smaller loss. It is
given up only where it stalls, as where a smooth network keeps all its samples alike.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import replace

from torch import nn

from unstale.inversion.objective import terms_of
from unstale.inversion.request import Request
from unstale.inversion.settings import Inversion
from unstale.inversion.solver import Result, solve
from unstale.inversion.surrogate import (
    BORROWED,
    InputSpec,
    Surrogate,
    start_of,
    starts_of,
    warmed,
)
from unstale.inversion.target import Target
from unstale.seeding import generator
from unstale.training.local import LocalSpec

# The share of a client's time that its trial may take, where time is limited.
_SHARE_OF_TIME = 0.5
# A first start whose loss is at most this many times the least one's is not given up.
_NOT_FAR = 1.3


def cold_starts(request: Request, inputs: InputSpec, settings: Inversion) -> list[Surrogate]:
    """Return where a cold fit of this request may begin, the preferred start first.

    Each start draws its noise from a generator of its own, so that it does not depend on the
    others. `borrowed` is left out where the request has no such surrogate.
    """
    samples = settings.num_samples(request.num_examples)
    starts: list[Surrogate] = []
    for name in starts_of(settings.start):
        if name != BORROWED:
            rng = generator(request.seed, "invert", "start")
            starts.append(start_of(name)(inputs, samples, settings.noise, rng))
        elif request.borrowed is not None and request.borrowed.fits(inputs):
            starts.append(warmed(request.borrowed, starts[0]))
    return starts


def chosen(losses: Sequence[float], enough: float) -> int:
    """Return which start goes on after the trial.

    The first, if its loss is at most `enough` or not far above the least; else the one of the
    least loss. A loss that is not finite counts as infinite.

    Example:
        >>> chosen([0.4, 0.2, 0.3], enough=0.5)
        0
        >>> chosen([0.9, 0.2, 0.3], enough=0.5)
        1
    """
    known = [loss if math.isfinite(loss) else math.inf for loss in losses]
    least = min(known)
    return 0 if known[0] <= max(enough, _NOT_FAR * least) else known.index(least)


def solve_cold(
    model: nn.Module,
    targets: Sequence[Sequence[Target]],
    starts: Sequence[Sequence[Surrogate]],
    *,
    local: LocalSpec,
    inputs: InputSpec,
    settings: Inversion,
) -> list[Result]:
    """Fit one surrogate to each client's targets, from the best of the client's starts.

    Where clients have one start each, this is `solve`. Otherwise the loss curve of a client is
    that of the chosen start: its trial, and what followed. What followed begins at the best
    point of the trial, with the optimizer and the learning-rate schedule at their beginning.

    Args:
        model: The model that is trained.
        targets: For each client, its updates; each client has as many.
        starts: For each client, where its surrogate may begin, the preferred start first.
        local: The recipe for surrogates (`Inversion.local_for`).
        inputs: What inputs look like.
        settings: How to fit.
    """
    if all(len(each) == 1 for each in starts):
        firsts = [each[0] for each in starts]
        return solve(model, targets, firsts, local=local, inputs=inputs, settings=settings)
    began = time.perf_counter()
    tried = _try_starts(model, targets, starts, local=local, inputs=inputs, settings=settings)
    rest = _rest(settings, (time.perf_counter() - began) / len(targets))
    if rest is None or not any(math.isfinite(result.loss) for result in tried):
        return tried
    begin = [result.surrogate for result in tried]
    ended = solve(model, targets, begin, local=local, inputs=inputs, settings=rest)
    return [_joined(a, b) for a, b in zip(tried, ended, strict=True)]


def _try_starts(
    model: nn.Module,
    targets: Sequence[Sequence[Target]],
    starts: Sequence[Sequence[Surrogate]],
    *,
    local: LocalSpec,
    inputs: InputSpec,
    settings: Inversion,
) -> list[Result]:
    """Fit every start for a while, `settings.at_once` in a batch; return each client's chosen."""
    rows = [(c, start) for c, each in enumerate(starts) for start in each]
    seconds = settings.max_seconds
    trial = replace(
        settings,
        iterations=min(settings.trial_iterations, settings.iterations),
        schedule="constant",
        max_seconds=seconds and _SHARE_OF_TIME * seconds * len(starts) / len(rows),
    )
    results: list[list[Result]] = [[] for _ in starts]
    for first in range(0, len(rows), settings.at_once):
        batch = rows[first : first + settings.at_once]
        found = solve(
            model,
            [targets[c] for c, _ in batch],
            [start for _, start in batch],
            local=local,
            inputs=inputs,
            settings=trial,
        )
        for (c, _), result in zip(batch, found, strict=True):
            results[c].append(result)
    enough = settings.trial_loss * len(terms_of(settings.objective))
    return [each[chosen([r.loss for r in each], enough)] for each in results]


def _rest(settings: Inversion, spent: float) -> Inversion | None:
    """Return the settings for what follows the trial; None where nothing is left."""
    iterations = settings.iterations - settings.trial_iterations
    seconds = settings.max_seconds
    left = None if seconds is None else seconds - spent
    if iterations < 1 or (left is not None and left <= 0):
        return None
    return replace(settings, iterations=iterations, max_seconds=left)


def _joined(trial: Result, ended: Result) -> Result:
    """Return what was found in the end, with the loss curve of both parts."""
    last = ended if math.isfinite(ended.loss) else trial
    return replace(last, losses=trial.losses + ended.losses)
