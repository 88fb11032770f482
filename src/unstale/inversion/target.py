"""What a fit reproduces: an update, the entries of it that count, and which ones are refused."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unstale.errors import ConfigError
from unstale.params import Params, norm
from unstale.seeding import generator

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


def target_of(
    base: Params,
    delta: Params,
    names: Sequence[str],
    sparsity: float,
    noise_variance: float = 0.0,
) -> Target:
    """Return the target for one update, sparsified over the whole vector, with noise if wanted."""
    vector = torch.cat([delta[n].detach().reshape(-1) for n in names])
    return Target(base, _noisy(vector, noise_variance), top_mask(vector, sparsity))


def _noisy(vector: Tensor, variance: float) -> Tensor:
    """Return the vector with Gaussian noise in every entry.

    The noise follows from the vector: an update that is fitted again, beside later ones of its
    client, has the same noise, and fits to several targets do not average it away.
    """
    if not variance:
        return vector
    digest = hashlib.sha256(vector.double().cpu().numpy().tobytes()).digest()
    draws = generator(int.from_bytes(digest[:8], "big"), "target_noise")
    noise = torch.randn(vector.shape, generator=draws, dtype=vector.dtype)
    return vector + math.sqrt(variance) * noise.to(vector.device)


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


def check_rate(rate: float) -> None:
    """Raise unless `rate` is a share of entries that leaves some."""
    if not 0 <= rate < 1:
        raise ConfigError(
            f"A sparsity should be in [0, 1). Found {rate!r}. Use 0 to keep every entry."
        )


def num_kept(entries: int, rate: float) -> int:
    """Return how many of so many entries are kept: at least one.

    Example:
        >>> num_kept(21840, 0.95)
        1092
    """
    return max(1, entries - round(entries * rate))


def top_mask(vector: Tensor, rate: float) -> Tensor | None:
    """Return the mask of the largest entries by size, or None where all are kept.

    Exactly `num_kept` entries are true. Of equal ones the first is kept, so that
    the mask depends on the values alone and not on the device.

    Args:
        vector: The whole update as one vector `[entries]`.
        rate: The share of entries to leave out.

    Example:
        >>> top_mask(torch.tensor([1.0, -3.0, 2.0, -2.0]), 0.5)
        tensor([False,  True,  True, False])
    """
    check_rate(rate)
    if rate == 0:
        return None
    # A stable sort, not topk, which may break ties either way.
    order = vector.detach().abs().sort(descending=True, stable=True).indices
    mask = torch.zeros(vector.shape, dtype=torch.bool, device=vector.device)
    mask[order[: num_kept(len(vector), rate)]] = True
    return mask
