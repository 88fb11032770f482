"""Which entries of an update the inversion looks at: the largest few."""

import torch
from torch import Tensor

from unstale.errors import ConfigError


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
