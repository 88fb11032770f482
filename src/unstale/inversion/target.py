"""What an inversion is fitted to, and which targets are beyond it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unstale.inversion.sparsify import top_mask
from unstale.params import Params, norm

# No honest update is this many times as large as the weights that it changes.
_HUGE = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """One update: where its training began, what it changed, which entries count."""

    base: Params
    """The weights that the client started from."""
    delta: Tensor
    """The change of the trained weights as one vector `[entries]`."""
    mask: Tensor | None = None
    """The entries that count `[entries]`; None for all."""


def target_of(base: Params, delta: Params, names: Sequence[str], sparsity: float) -> Target:
    """Return the target for one update, sparsified over the whole vector."""
    vector = torch.cat([delta[n].detach().reshape(-1) for n in names])
    return Target(base, vector, top_mask(vector, sparsity))


def size_fault(delta: Params, weights: Params) -> str | None:
    """Return why `delta` cannot be a change of `weights` by training, or None.

    Example:
        >>> size_fault({"w": torch.zeros(2)}, {"w": torch.ones(2)})
        'zero'
    """
    size, scale = norm(delta), norm(weights)
    if not math.isfinite(scale):
        return "changes weights that are not finite"
    if not math.isfinite(size):
        return "not finite"
    if size == 0:
        return "zero"
    precision = max(torch.finfo(p.dtype).eps for p in weights.values())
    if size <= precision * scale:
        return f"too small: {size:.1e} is below the rounding of weights of {scale:.1e}"
    if size > _HUGE * max(scale, 1.0):
        return f"too large: {size:.1e} beside weights of {scale:.1e}"
    return None
