"""Fitting a surrogate before the round that needs it.

The expensive half of a conversion, finding the surrogate, needs nothing of today's
model. So a server with a `Background` fits while rounds go on, and only the half that
needs today's model, one short training, is left for the step.

The part that converts may be wrapped (`chain`, `only_unique`, `switch_back`, `Convert`).
The functions here find it inside, so that no wrapper has to know of fits or surrogates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol, runtime_checkable

from torch import nn

from unstale.inversion import Fit, InputSpec, Inversion, Request, Surrogate, fit_many
from unstale.methods.base import Compensator, Wrapper
from unstale.training import LocalSpec
from unstale.updates import ServerView, State, Update


@dataclass(frozen=True, slots=True, eq=False)
class FitJob:
    """A fit to be computed ahead, with all that it needs but the model's structure."""

    request: Request
    local: LocalSpec
    inputs: InputSpec
    inversion: Inversion


@runtime_checkable
class FitsSurrogates(Protocol):
    """A compensator that fits surrogates and keeps them in its memory."""

    def surrogates(self, state: State) -> Mapping[str, Surrogate]:
        """Return the surrogates that are kept, by client."""
        ...

    def fit_job(self, update: Update, state: State, view: ServerView) -> FitJob | None:
        """Return the fit that can be computed for one stale update now; None for none.

        The step after finds the result in `view.tools.prefits`, and uses it where the
        update is still to be converted by then.
        """
        ...


def surrogates_of(compensator: Compensator, state: State) -> dict[str, Surrogate]:
    """Return all surrogates that a compensator keeps, by client.

    Of two for one client, from two parts of a chain, the later part's is returned.
    """
    if isinstance(compensator, FitsSurrogates):
        return dict(compensator.surrogates(state))
    found: dict[str, Surrogate] = {}
    if isinstance(compensator, Wrapper):
        for part, memory in compensator.parts(state):
            found |= surrogates_of(part, memory)
    return found


def fit_job_of(
    compensator: Compensator, update: Update, state: State, view: ServerView
) -> FitJob | None:
    """Return the fit that can be computed ahead for an update; None where there is none."""
    if isinstance(compensator, FitsSurrogates):
        return compensator.fit_job(update, state, view)
    if isinstance(compensator, Wrapper):
        for part, memory in compensator.reached_by(update, state, view):
            if _fits_inside(part, memory):
                return fit_job_of(part, update, memory, view)
    return None


def _fits_inside(compensator: Compensator, state: State) -> bool:
    if isinstance(compensator, Wrapper):
        return any(_fits_inside(part, memory) for part, memory in compensator.parts(state))
    return isinstance(compensator, FitsSurrogates)


def compute_fits(model: nn.Module, jobs: Sequence[FitJob]) -> list[Fit]:
    """Compute fits, those of one recipe and one set of settings at once; `Background` calls it."""
    fits: list[Fit] = []
    alike = groupby(jobs, key=lambda job: (job.local, job.inputs, job.inversion))
    for (local, inputs, inversion), group in alike:
        requests = [job.request for job in group]
        fits += fit_many(model, requests, local=local, inputs=inputs, settings=inversion)
    return fits
