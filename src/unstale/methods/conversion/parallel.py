"""A round's conversions on several workers of an executor."""

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from unstale.executors import Inline
from unstale.inversion import Conversion, InputSpec, Inversion, Request, convert_many
from unstale.params import Params
from unstale.training.local import LocalSpec
from unstale.updates import ServerView


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """What one worker converts of a round."""

    requests: Sequence[Request]
    current: Params
    local: LocalSpec
    inputs: InputSpec
    settings: Inversion


def convert_parallel(
    requests: Sequence[Request],
    model: nn.Module,
    inputs: InputSpec,
    settings: Inversion,
    view: ServerView,
    seconds: float | None = None,
) -> list[Conversion]:
    """Convert the requests on the workers of the view's executor; answers keep their order.

    Args:
        requests: What is to be converted to the view's weights.
        model: The structure that clients train.
        inputs: What one input looks like.
        settings: How to fit.
        view: Gives the weights, the recipe and the executor.
        seconds: What all of them together may take.

    Raises:
        WorkerError: If workers died.
    """
    if not requests:
        return []
    executor = view.tools.executor or Inline()
    count = min(executor.workers, len(requests))
    if seconds is not None:
        each = seconds / -(-len(requests) // count)
        each = each if settings.max_seconds is None else min(each, settings.max_seconds)
        settings = dataclasses.replace(settings, max_seconds=each)
    # Dealt out like cards, so that long and short ones are mixed evenly.
    parts = [
        _Part(requests[i::count], view.params, view.local, inputs, settings) for i in range(count)
    ]
    here = isinstance(executor, Inline)
    answers = executor.map(_convert_part, model if here else structure_of(model), parts)
    return [answers[i % count][i // count] for i in range(len(requests))]


def _convert_part(model: nn.Module, part: _Part) -> list[Conversion]:
    return convert_many(
        model,
        part.requests,
        current=part.current,
        local=part.local,
        inputs=part.inputs,
        settings=part.settings,
    )


def structure_of(model: nn.Module) -> nn.Module:
    """Return a copy with weights of zero: they are not used, and the same for every round."""
    blank = copy.deepcopy(model)
    for p in blank.parameters():
        p.grad = None
        p.data.zero_()
    return blank
