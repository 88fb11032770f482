"""A race of starts: several beginnings of a cold fit, of which one goes on.

All candidates of all clients are fitted for a few iterations as one batch. The first start
that is not far behind the best goes on: many data sets explain one update, and those that
come from a plainer start carry over better to other weights, so a small lead is not enough.
"""

from collections.abc import Sequence
from dataclasses import replace

from torch import nn

from unstale.inversion.settings import Inversion
from unstale.inversion.solver import Result, solve
from unstale.inversion.surrogate import InputSpec, Surrogate
from unstale.inversion.target import Target
from unstale.training.local import LocalSpec

# A start goes on if its loss is at most this many times the least one.
_BEHIND = 1.5


def solve_raced(
    model: nn.Module,
    targets: Sequence[Sequence[Target]],
    starts: Sequence[Sequence[Surrogate]],
    *,
    local: LocalSpec,
    inputs: InputSpec,
    settings: Inversion,
) -> list[Result]:
    """Fit one surrogate to each client's targets, from the best of its starts.

    Args:
        model: The model that is trained.
        targets: For each client, its updates; each client has as many.
        starts: For each client, where its surrogate may begin, the preferred first; each client
            has as many starts, and each start as many samples.
        local: The recipe for surrogates (`Inversion.local_for`).
        inputs: What inputs look like.
        settings: How to fit.
    """
    tried = min(settings.trial_iterations, settings.iterations)
    first = solve(
        model,
        [target for target, each in zip(targets, starts, strict=True) for _ in each],
        [start for each in starts for start in each],
        local=local,
        inputs=inputs,
        settings=replace(settings, iterations=tried, patience=0),
    )
    count = len(starts[0])
    heats = [first[i : i + count] for i in range(0, len(first), count)]
    ahead = [heat[chosen([r.loss for r in heat])] for heat in heats]
    if tried == settings.iterations:
        return ahead
    rest = solve(
        model,
        targets,
        [result.surrogate for result in ahead],
        local=local,
        inputs=inputs,
        settings=replace(settings, iterations=settings.iterations - tried),
    )
    return [_joined(before, after) for before, after in zip(ahead, rest, strict=True)]


def chosen(losses: Sequence[float]) -> int:
    """Return the place of the first loss that is not far above the least.

    A loss that is not finite is never chosen, unless all are.

    Example:
        >>> chosen([0.5, 0.4, 0.1]), chosen([0.12, 0.1]), chosen([float("nan"), 0.9])
        (2, 0, 1)
    """
    finite = [loss for loss in losses if loss < float("inf")]
    if not finite:
        return 0
    return next(i for i, loss in enumerate(losses) if loss <= _BEHIND * min(finite))


def _joined(before: Result, after: Result) -> Result:
    """Return the better of a trial and of what followed, with the losses of both."""
    best = after if after.ok or not before.ok else before
    if before.ok and after.ok and before.loss < after.loss:
        best = before
    return replace(best, losses=before.losses + after.losses)
