"""What conversion makes: the surrogates that a server fits to a client's updates, one by one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import nn

from unstale.inversion import InputSpec, Inversion, Request, Surrogate, fit_many
from unstale.inversion.request import Sent
from unstale.seeding import derive
from unstale.training.local import LocalSpec


@dataclass(frozen=True, slots=True, eq=False)
class Converted:
    """The surrogates of one client."""

    first: Surrogate | None
    """After its first update; None where no fit succeeded."""
    last: Surrogate | None
    """After all of its updates, each fit started from the surrogate before."""
    loss: float
    """The loss of the last fit."""


def converted_surrogates(
    model: nn.Module,
    sent: Sequence[Sequence[Sent]],
    num_examples: Sequence[int],
    *,
    local: LocalSpec,
    inputs: InputSpec,
    settings: Inversion,
    seed: int = 0,
) -> list[Converted]:
    """Fit surrogates as `convert` does: cold to a client's first update, warm to later ones.

    Args:
        model: The structure that clients train.
        sent: For each client its updates `(base, delta)`, the oldest first; equally many.
        num_examples: How many samples each client reports.
        local: The recipe that clients run.
        inputs: What one input looks like.
        settings: How `convert` fits; `history` says how many updates one fit looks at.
        seed: Seeds the starts.
    """
    requests = [
        Request(*own[0], count, seed=derive(seed, "audit", "client", i))
        for i, (own, count) in enumerate(zip(sent, num_examples, strict=True))
    ]
    fits = fit_many(model, requests, local=local, inputs=inputs, settings=settings)
    first = [fit.surrogate for fit in fits]
    last, losses = list(first), [fit.loss for fit in fits]
    for arrival in range(1, len(sent[0])):
        requests = [
            replace(
                request,
                base=own[arrival][0],
                delta=own[arrival][1],
                past=own[:arrival],
                warm=kept,
            )
            for request, own, kept in zip(requests, sent, last, strict=True)
        ]
        fits = fit_many(model, requests, local=local, inputs=inputs, settings=settings)
        last = [fit.surrogate or kept for fit, kept in zip(fits, last, strict=True)]
        losses = [fit.loss for fit in fits]
    return [Converted(*each) for each in zip(first, last, losses, strict=True)]
