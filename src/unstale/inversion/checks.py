"""Whether the parts of a conversion belong together: the caller's mistakes, not a client's."""

from collections.abc import Sequence
from dataclasses import replace

from torch import nn

from unstale.errors import ConfigError
from unstale.inversion.conversion import Request
from unstale.inversion.surrogate import InputSpec, Surrogate
from unstale.params import Params
from unstale.training.local import LocalSpec, local_update


def check_requests(
    model: nn.Module, requests: Sequence[Request], current: Params | None = None
) -> None:
    """Raise unless all weights and updates have the model's names and shapes."""
    shapes = {n: p.shape for n, p in model.named_parameters()}

    def check(what: str, params: Params) -> None:
        found = {n: p.shape for n, p in params.items()}
        if found != shapes:
            wrong = sorted(n for n in {*found, *shapes} if found.get(n) != shapes.get(n))
            raise ConfigError(
                f"convert: `{what}` should have the model's parameters and shapes. "
                f"Found a difference in {', '.join(wrong)}."
            )

    if current is not None:
        check("current", current)
    for request in requests:
        if request.num_examples < 1:
            raise ConfigError(
                f"convert: `num_examples` should be at least 1. Found {request.num_examples}."
            )
        check("base", request.base)
        check("delta", request.delta)
        for base, delta in request.past:
            check("past", base)
            check("past", delta)


def try_model(
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
