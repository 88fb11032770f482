"""SGD and Adam as pure functions: gradients and memory in, steps and memory out.

They use elementwise arithmetic only, so they can be differentiated through and take
weights with or without a leading dimension of clients. Each equals its namesake in
`torch.optim` to rounding.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from unstale.errors import UnknownNameError

if TYPE_CHECKING:
    from unstale.training.spec import LocalSpec

Memory = Mapping[str, Any]
# (gradients, memory, spec) -> (steps to add to the weights, new memory)
Optimizer = Callable[[Mapping[str, Tensor], Memory, "LocalSpec"], tuple[dict[str, Tensor], Memory]]


def sgd(
    grads: Mapping[str, Tensor], memory: Memory, spec: "LocalSpec"
) -> tuple[dict[str, Tensor], Memory]:
    """Return `-lr·v` with `v ← momentum·v + g` (`v = g` at the first step)."""
    if spec.momentum and memory:
        grads = {n: spec.momentum * memory["velocity"][n] + g for n, g in grads.items()}
    return {n: -spec.lr * g for n, g in grads.items()}, {"velocity": grads}


def adam(
    grads: Mapping[str, Tensor], memory: Memory, spec: "LocalSpec"
) -> tuple[dict[str, Tensor], Memory]:
    """Return Adam's step with bias-corrected first and second moments."""
    b1, b2 = spec.betas
    step = memory.get("step", 0) + 1
    if step == 1:
        first = {n: (1 - b1) * g for n, g in grads.items()}
        second = {n: (1 - b2) * g * g for n, g in grads.items()}
    else:
        first = {n: b1 * memory["first"][n] + (1 - b1) * g for n, g in grads.items()}
        second = {n: b2 * memory["second"][n] + (1 - b2) * g * g for n, g in grads.items()}
    moves = {}
    for n in grads:
        # The tiny constant keeps the derivative of the root finite where a gradient is zero;
        # it is far below rounding of any second moment that matters.
        root = (second[n] / (1 - b2**step) + _tiny(second[n])).sqrt()
        moves[n] = -spec.lr / (1 - b1**step) * first[n] / (root + spec.eps)
    return moves, {"step": step, "first": first, "second": second}


def _tiny(like: Tensor) -> float:
    return 1e-38 if like.element_size() < 8 else 1e-300


OPTIMIZERS: dict[str, Optimizer] = {"sgd": sgd, "adam": adam}


def optimizer_of(name: str) -> Optimizer:
    """Return the optimizer of that name."""
    if name not in OPTIMIZERS:
        raise UnknownNameError("LocalSpec: `optimizer`", name, OPTIMIZERS)
    return OPTIMIZERS[name]
