"""Fits of a round in parallel, on the workers of an executor."""

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from unstale.errors import ConfigError
from unstale.executors import Inline
from unstale.inversion import Fit, InputSpec, Inversion, Request, fit_many
from unstale.training.local import LocalSpec
from unstale.updates import ServerView


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The fits of one worker."""

    requests: Sequence[Request]
    local: LocalSpec
    inputs: InputSpec
    settings: Inversion


def fit_parallel(
    requests: Sequence[Request],
    model: nn.Module,
    inputs: InputSpec,
    settings: Inversion,
    view: ServerView,
    seconds: float | None = None,
) -> list[Fit]:
    """Fit surrogates on the workers of the view's executor.

    Args:
        requests: The updates to fit surrogates to.
        model: The architecture that clients train.
        inputs: Shape, bounds and number of classes of the inputs.
        settings: How surrogates are fitted.
        view: Gives the training recipe and the executor.
        seconds: Maximum seconds of all fits together; no limit if None.

    Returns:
        The fits, in the order of `requests`.

    Raises:
        WorkerError: If a worker died.
    """
    if not requests:
        return []
    executor = view.tools.executor or Inline()
    count = min(executor.workers, len(requests))
    if seconds is not None:
        each = seconds / -(-len(requests) // count)
        each = each if settings.max_seconds is None else min(each, settings.max_seconds)
        settings = dataclasses.replace(settings, max_seconds=each)
    # Round robin, so that requests of one kind are spread over the workers.
    parts = [_Part(requests[i::count], view.local, inputs, settings) for i in range(count)]
    here = isinstance(executor, Inline)
    answers = executor.map(_fit_part, model if here else structure_of(model), parts)
    return [answers[i % count][i // count] for i in range(len(requests))]


def _fit_part(model: nn.Module, part: _Part) -> list[Fit]:
    return fit_many(
        model, part.requests, local=part.local, inputs=part.inputs, settings=part.settings
    )


def structure_of(model: nn.Module) -> nn.Module:
    """Return a copy of the model with zero weights.

    The weights are not used. Being the same in every round, the copy is sent to each worker
    only once.
    """
    blank = copy.deepcopy(model)
    for p in blank.parameters():
        p.grad = None
        p.data.zero_()
    return blank


def needed(view: ServerView) -> tuple[nn.Module, InputSpec]:
    """Return the model and the inputs that fits need.

    Raises:
        ConfigError: If the server has none.
    """
    if view.tools.model is None:
        raise ConfigError(
            "Conversion should have the model to train. Found none. "
            "Pass it: Server(model, ...), or Server.load(dir, model)."
        )
    if view.tools.inputs is None:
        raise ConfigError(
            "Conversion should know the shape and bounds of inputs. Found nothing. Pass them: "
            "Server(..., inputs=InputSpec(shape=..., classes=..., low=..., high=...))."
        )
    return view.tools.model, view.tools.inputs
