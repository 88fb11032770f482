"""Cold fits: a client's first, which have no earlier surrogate to begin from.

A cold fit has up to three parts.

1. *Trial*, if there are several starts: all of them for a while, then only the chosen one. The
   starts of all clients are rows of the same batches, since the solver fits every row on its
   own. A client's first start is preferred: many data sets explain one update, and the plain one
   often carries over to other weights better than one with a smaller loss. It is given up only
   where it stalls, as where a smooth network keeps all its samples alike.
2. *Counting*, if labels are to be hard: the chosen start goes on with soft labels that are pushed
   towards one class each. Their sum says how many samples of each class the client has.
3. The fit itself. With soft labels it goes on from what was found; with hard ones it begins at the
   inputs of the chosen start, with so many samples of each class (`hard_labels.py`). Where too few
   iterations are left for that, the surrogate keeps the soft labels of counting.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import replace

from torch import nn

from unstale.inversion.hard_labels import hard_start, softened
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

# The share of a client's time that its trial may take, and of what is left that counting may take,
# where time is limited.
_SHARE_OF_TIME = 0.5
_TIME_TO_COUNT = 0.4
# A first start whose loss is at most this many times the least one's is not given up.
_NOT_FAR = 1.3
# While classes are counted: the least weight of the labels' entropy in the objective, and the
# largest share of the iterations that are left.
_ENTROPY = 0.1
_SHARE_TO_COUNT = 0.35
# A fit with hard labels that ends at a loss above this, and at more than so many times that of
# counting, had too few iterations: what was counted is used.
_GOOD, _FAR = 0.1, 2.0


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
            borrowed = warmed(request.borrowed, starts[0])
            starts.append(borrowed if settings.labels == "soft" else softened(borrowed))
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
    seeds: Sequence[int],
) -> list[Result]:
    """Fit one surrogate to each client's targets, from the best of the client's starts.

    With soft labels and one start each, this is `solve`. Otherwise a client's loss curve is that
    of its chosen start: trial, counting, and the fit, each with the optimizer and the
    learning-rate schedule at their beginning. A part begins at the best point of the one before,
    but the fit with hard labels at the inputs of the start.

    Args:
        model: The model that is trained.
        targets: For each client, its updates; each client has as many.
        starts: For each client, where its surrogate may begin, the preferred start first.
        local: The recipe for surrogates (`Inversion.local_for`).
        inputs: What inputs look like.
        settings: How to fit.
        seeds: For each client, what decides which of its samples has which class.
    """

    def fitted(begin: Sequence[Surrogate], how: Inversion) -> list[Result]:
        return solve(model, targets, begin, local=local, inputs=inputs, settings=how)

    began = time.perf_counter()

    def rest(done: int) -> Inversion | None:
        return _rest(settings, done, (time.perf_counter() - began) / len(targets))

    # 1. Choose a start.
    places, found, how, done = [0] * len(starts), list[Result](), settings, 0
    if any(len(each) > 1 for each in starts):
        places, found = _try_starts(
            model, targets, starts, local=local, inputs=inputs, settings=settings
        )
        done = min(settings.trial_iterations, settings.iterations)
        left = rest(done)
        if left is None or not any(math.isfinite(result.loss) for result in found):
            return found
        how = left
    begin = [r.surrogate for r in found] or [each[0] for each in starts]
    if settings.labels == "soft":
        return _joined(found, fitted(begin, how))
    # 2. Count the classes.
    counting = _counting(settings, how)
    found = _joined(found, fitted(begin, counting))
    left = rest(done + counting.iterations)
    if left is None:
        return found
    # 3. Begin anew with hard labels.
    begin = [
        hard_start(each[place], result.surrogate, seed)
        for each, place, result, seed in zip(starts, places, found, seeds, strict=True)
    ]
    ended = fitted(begin, with_fixed_labels(left))
    good = _GOOD * len(terms_of(settings.objective))
    kept = [
        soft if hard.loss > max(good, _FAR * soft.loss) else hard
        for soft, hard in zip(found, ended, strict=True)
    ]
    losses = [result.losses for result in ended]
    return _joined(found, [replace(k, losses=part) for k, part in zip(kept, losses, strict=True)])


def with_fixed_labels(settings: Inversion) -> Inversion:
    """Return the settings for a fit that keeps the labels it begins with."""
    return replace(settings, labels="soft", label_lr=0.0)


def _try_starts(
    model: nn.Module,
    targets: Sequence[Sequence[Target]],
    starts: Sequence[Sequence[Surrogate]],
    *,
    local: LocalSpec,
    inputs: InputSpec,
    settings: Inversion,
) -> tuple[list[int], list[Result]]:
    """Fit every start for a while, `settings.at_once` in a batch.

    Returns:
        For each client, which of its starts is chosen, and what it led to.
    """
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
    places = [chosen([r.loss for r in each], enough) for each in results]
    return places, [each[place] for each, place in zip(results, places, strict=True)]


def _counting(settings: Inversion, left: Inversion) -> Inversion:
    """Return the settings for counting, given those for all that is left."""
    most = max(1, int(_SHARE_TO_COUNT * left.iterations))
    return replace(
        left,
        iterations=min(settings.count_iterations, most),
        entropy=max(settings.entropy, _ENTROPY),
        schedule="constant",
        max_seconds=left.max_seconds and _TIME_TO_COUNT * left.max_seconds,
    )


def _rest(settings: Inversion, done: int, spent: float) -> Inversion | None:
    """Return the settings for what follows; None where no iteration or no time is left."""
    iterations = settings.iterations - done
    seconds = settings.max_seconds
    left = None if seconds is None else seconds - spent
    if iterations < 1 or (left is not None and left <= 0):
        return None
    return replace(settings, iterations=iterations, max_seconds=left)


def _joined(before: Sequence[Result], after: Sequence[Result]) -> list[Result]:
    """Return what was found in the end, with the loss curve of both parts."""
    if not before:
        return list(after)
    return [
        replace(b if math.isfinite(b.loss) else a, losses=a.losses + b.losses)
        for a, b in zip(before, after, strict=True)
    ]
