"""The first half of a conversion: fitting a surrogate to each client's updates.

It needs nothing of today's model, so it can be done before the round that needs it, or
on another machine. The second half (`unstale.inversion.convert`) is one short training.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import nn

from unstale.errors import ConfigError
from unstale.inversion.cold_start import cold_starts, solve_cold, with_fixed_labels
from unstale.inversion.ensemble import joined, requests_of
from unstale.inversion.hard_labels import hard_start
from unstale.inversion.objective import terms_of
from unstale.inversion.request import Fit, Request, Sent, check_requests
from unstale.inversion.settings import Inversion
from unstale.inversion.solver import Result, solve
from unstale.inversion.surrogate import InputSpec, Surrogate, warmed
from unstale.inversion.target import Target, size_fault, target_of
from unstale.params import Params
from unstale.training.local import LocalSpec, local_update
from unstale.training.token_models import surrogate_names, without_embedding


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """A request that passed its checks, ready for the solver."""

    index: int
    targets: list[Target]
    starts: list[Surrogate]
    """Where to begin: the client's last surrogate where there is one, else as `anew`."""
    anew: list[Surrogate]
    """Where to begin without one; all are tried, the first is preferred."""
    local: LocalSpec
    warm: bool
    seed: int
    """Decides which sample has which class, where labels are hard."""

    @property
    def kind(self) -> tuple[object, ...]:
        """Jobs of one kind can be solved at once."""
        several = len(self.starts) > 1
        return (len(self.targets), len(self.starts[0]), self.local, self.warm, several)


def fit_many(
    model: nn.Module,
    requests: Sequence[Request],
    *,
    local: LocalSpec,
    inputs: InputSpec,
    settings: Inversion,
) -> list[Fit]:
    """Fit a surrogate to each request, or an ensemble of them (`unstale.inversion.ensemble`).

    Requests with equally many samples and past updates are solved together, at most
    `settings.at_once` of them. A cold fit tries several starts, if `settings.start` names
    several (`unstale.inversion.cold_start`). A warm fit that stays above `settings.restart_loss`
    is repeated as a cold one, and the better of the two is returned.
    """
    check_requests(model, requests)
    members = [requests_of(request, settings.ensemble) for request in requests]
    if settings.max_seconds is not None:
        settings = replace(settings, max_seconds=settings.max_seconds / settings.ensemble)
    rows = [member for each in members for member in each]
    fits = iter(_fit_each(model, rows, local=local, inputs=inputs, settings=settings))
    return [joined([next(fits) for _ in each]) for each in members]


def _fit_each(
    model: nn.Module,
    requests: Sequence[Request],
    *,
    local: LocalSpec,
    inputs: InputSpec,
    settings: Inversion,
) -> list[Fit]:
    """Fit one surrogate to each request."""
    names = surrogate_names(model)
    jobs: list[_Job] = []
    fits: dict[int, Fit] = {}
    for index, request in enumerate(requests):
        if fault := _fault(model, (request.base, request.delta)):
            fits[index] = Fit(None, math.nan, (), 0.0, reason=f"the update is {fault}")
        else:
            # Of the past only what can be fitted.
            past = [sent for sent in request.past if _fault(model, sent) is None]
            known = replace(request, past=past)
            jobs.append(_prepare(index, known, names, local, inputs, settings))
    if jobs:
        first = jobs[0]
        _try_model(model, first.targets[0].base, first.starts[0], first.local, inputs)
    for group in _groups(jobs, settings.at_once):
        for job, result, seconds in _solved(model, group, inputs, settings):
            fits[job.index] = _fit_of(result, seconds, job.warm)
    trapped = [job for job in jobs if job.warm and _is_trapped(fits[job.index], settings)]
    cold = [replace(job, starts=job.anew, warm=False) for job in trapped]
    for group in _groups(cold, settings.at_once):
        spent = max(fits[job.index].seconds for job in group)
        if (left := _left(settings, spent)) is None:
            continue
        for job, result, seconds in _solved(model, group, inputs, left):
            fits[job.index] = _better(fits[job.index], _fit_of(result, seconds, warm=False))
    return [fits[index] for index in range(len(requests))]


def _try_model(
    model: nn.Module, base: Params, start: Surrogate, local: LocalSpec, inputs: InputSpec
) -> None:
    """Train one step as a check that model and inputs belong together and have no side effects."""
    one_step = replace(local, epochs=None, steps=1, batch_size=None)
    like = next(iter(base.values()))
    x, labels = start.x[:2].to(like), start.labels[:2].to(like)
    try:
        local_update(model, base, x, labels, one_step)
    except (RuntimeError, ValueError) as error:
        raise ConfigError(
            f"convert: the model should take inputs of the shape {inputs.shape} and give "
            f"{inputs.classes} classes. It failed with: {error}"
        ) from error


def _fault(model: nn.Module, sent: Sent) -> str | None:
    """Return why an update cannot be fitted, or None; only what surrogates train counts."""
    base, delta = (without_embedding(model, params) for params in sent)
    return size_fault(delta, base)


def _prepare(
    index: int,
    request: Request,
    names: Sequence[str],
    local: LocalSpec,
    inputs: InputSpec,
    settings: Inversion,
) -> _Job:
    earlier = request.past[-(settings.history - 1) :] if settings.history > 1 else []
    sent = [*earlier, (request.base, request.delta)]  # the newest update is the last target
    anew = cold_starts(request, inputs, settings)
    warm = request.warm is not None and request.warm.fits(inputs)
    starts = anew
    if request.warm is not None and warm:
        last = warmed(request.warm, anew[0])
        if settings.labels == "hard":  # also where the last surrogate is soft, or is filled up
            last = hard_start(last, request.warm, request.seed)
        starts = [last]
    targets = [
        target_of(base, delta, names, settings.sparsity, settings.target_noise)
        for base, delta in sent
    ]
    recipe = settings.local_for(local, request.num_examples)
    return _Job(index, targets, starts, anew, recipe, warm, request.seed)


def _groups(jobs: Sequence[_Job], at_once: int) -> list[list[_Job]]:
    kinds: dict[tuple[object, ...], list[_Job]] = {}
    for job in jobs:
        kinds.setdefault(job.kind, []).append(job)
    return [same[i : i + at_once] for same in kinds.values() for i in range(0, len(same), at_once)]


def _solved(
    model: nn.Module, group: Sequence[_Job], inputs: InputSpec, settings: Inversion
) -> list[tuple[_Job, Result, float]]:
    """Return what the solver found for jobs of one kind, and each one's share of the time."""
    began = time.perf_counter()
    first = group[0]
    targets = [job.targets for job in group]
    if first.warm:
        starts = [job.starts[0] for job in group]
        how = settings if settings.labels == "soft" else with_fixed_labels(settings)
        results = solve(
            model, targets, starts, local=first.local, inputs=inputs, settings=how, warm=True
        )
    else:
        several = [job.starts for job in group]
        results = solve_cold(
            model,
            targets,
            several,
            local=first.local,
            inputs=inputs,
            settings=settings,
            seeds=[job.seed for job in group],
        )
    seconds = (time.perf_counter() - began) / len(group)
    return [(job, result, seconds) for job, result in zip(group, results, strict=True)]


def _fit_of(result: Result, seconds: float, warm: bool) -> Fit:
    surrogate = result.surrogate if result.ok else None
    return Fit(surrogate, result.loss, result.losses, seconds, warm, result.reason)


def _is_trapped(fit: Fit, settings: Inversion) -> bool:
    """Tell whether a warm fit is so poor that a cold start is worth trying."""
    bound = settings.restart_loss * len(terms_of(settings.objective))
    return bound > 0 and not fit.loss <= bound


def _left(settings: Inversion, spent: float) -> Inversion | None:
    """Return the settings with what is left of the time; None where it is used up."""
    if settings.max_seconds is None:
        return settings
    left = settings.max_seconds - spent
    return replace(settings, max_seconds=left) if left > 0 else None


def _better(warm: Fit, cold: Fit) -> Fit:
    """Return the better of two fits, with the cost of both."""
    best = cold if cold.ok and (not warm.ok or cold.loss < warm.loss) else warm
    return replace(best, losses=warm.losses + cold.losses, seconds=warm.seconds + cold.seconds)
