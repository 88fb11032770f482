"""What can be done for a stale update before the round in which it takes part.

The expensive half of a conversion, finding the surrogate, needs nothing of today's
model. So it can be done while rounds go on; the half that needs today's model is one
short training, in the step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol, runtime_checkable

from torch import nn

from unstale.inversion import Fit, InputSpec, Inversion, Request, fit_many
from unstale.methods.base import Compensator
from unstale.training.local import LocalSpec
from unstale.updates import ServerView, State, Update


@dataclass(frozen=True, slots=True, eq=False)
class Preparation:
    """A fit to be made ahead, with all that it needs but the model's structure."""

    request: Request
    local: LocalSpec
    inputs: InputSpec
    settings: Inversion


@runtime_checkable
class Prepares(Protocol):
    """A compensator for which something can be done ahead, or one that wraps such a one."""

    def prepare(self, update: Update, state: State, view: ServerView) -> Preparation | None:
        """Return what can be done for one stale update now, or None for nothing.

        The step after finds the result in `view.prepared`, and uses it where the update
        is still to be converted by then.
        """
        ...


def preparation_of(
    compensator: Compensator, update: Update, state: State, view: ServerView
) -> Preparation | None:
    """Return what can be done ahead for an update; None where there is nothing."""
    if not isinstance(compensator, Prepares):
        return None
    return compensator.prepare(update, state, view)


def fit_ahead(model: nn.Module, items: Sequence[Preparation]) -> list[Fit]:
    """Make fits; those that are made alike at once. The work that a `Background` does."""
    fits: list[Fit] = []
    alike = groupby(items, key=lambda item: (item.local, item.inputs, item.settings))
    for (local, inputs, settings), group in alike:
        requests = [item.request for item in group]
        fits += fit_many(model, requests, local=local, inputs=inputs, settings=settings)
    return fits
