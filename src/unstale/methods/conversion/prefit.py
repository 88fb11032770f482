"""Prefits: surrogates that are fitted before the round that needs them.

A conversion has two halves. Fitting the surrogate is expensive and does not depend on
the current model, so a server with a `Background` does it while rounds go on. Training
the current model on the surrogate is cheap and is done in the server's step.

The compensator that fits may be wrapped by others (`chain`, `only_unique`,
`switch_back`, `Convert`). The functions here find it inside them, so wrappers do not
have to forward anything about fits or surrogates.
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
    """A fit to compute in the background, with everything it needs except the model."""

    request: Request
    local: LocalSpec
    inputs: InputSpec
    inversion: Inversion


@runtime_checkable
class FitsSurrogates(Protocol):
    """A compensator that fits surrogates and keeps them in its state."""

    def surrogates(self, state: State) -> Mapping[str, Surrogate]:
        """Return the surrogates in the state, by client."""
        ...

    def fit_job(self, update: Update, state: State, view: ServerView) -> FitJob | None:
        """Return the fit for a stale update that can be computed now, or None.

        A later step finds the result in `view.tools.prefits` and uses it if the update is
        to be converted.
        """
        ...


def surrogates_of(compensator: Compensator, state: State) -> dict[str, Surrogate]:
    """Return all surrogates in a compensator's state, by client.

    If two parts of a chain have a surrogate for a client, the later part's is returned.
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
    """Return the fit for an update that can be computed in the background, or None."""
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
    """Compute fits for `Background`; neighbouring jobs with equal settings in one batch."""
    fits: list[Fit] = []
    alike = groupby(jobs, key=lambda job: (job.local, job.inputs, job.inversion))
    for (local, inputs, inversion), group in alike:
        requests = [job.request for job in group]
        fits += fit_many(model, requests, local=local, inputs=inputs, settings=inversion)
    return fits
