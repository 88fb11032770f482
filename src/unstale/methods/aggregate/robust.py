"""What robust aggregators share: the updates that count, and vectors of whole updates.

A robust aggregator bounds what a few malicious updates of a round can do. All of them run after
the compensator, so an honest late client is judged by its converted update and not by the stale
one, which may look like an outlier. None of them has a memory.

How much an update counts:

- Updates of weight 0 are left out.
- Rules for each coordinate (`median`, `trimmed_mean`) count all others alike, as published:
  neither examples nor weights matter, so a client gains nothing by claiming many examples.
- Rules that pick or shorten updates (`multi_krum`, `norm_bound`, `direction_bound`) leave it to
  the mean that follows, which is by examples and weights. `Limits.max_examples` bounds a claim.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from unstale.errors import ConfigError
from unstale.params import Params
from unstale.updates import Note, State, Update


class Memoryless:
    """Base class of aggregators without state."""

    __slots__ = ()

    def init(self) -> State:
        """Return the empty state."""
        return {}


def counted(updates: Sequence[Update]) -> list[Update]:
    """Return the updates of positive weight."""
    return [update for update in updates if update.weight > 0]


def stacked(updates: Sequence[Update]) -> dict[str, Tensor]:
    """Return the deltas by name, those of all updates along a new first dimension."""
    return {name: torch.stack([u.delta[name] for u in updates]) for name in updates[0].delta}


def products(updates: Sequence[Update]) -> Tensor:
    """Return the matrix of dot products of all pairs of deltas, in double precision."""
    return products_of([update.delta for update in updates])


def products_of(deltas: Sequence[Params]) -> Tensor:
    """Return the matrix of dot products of all pairs, in double precision."""
    total = torch.zeros(len(deltas), len(deltas), dtype=torch.float64)
    for name in deltas[0]:
        rows = torch.stack([delta[name].reshape(-1) for delta in deltas]).double()
        total += (rows @ rows.T).cpu()
    return total


def of_share(share: float, n: int) -> int:
    """Return how many of n updates a share stands for, rounded up.

    Example:
        >>> of_share(0.1, 30), of_share(0.1, 11), of_share(0.0, 5)
        (3, 2, 0)
    """
    return math.ceil(round(share * n, 9))  # 0.1 * 30 is a little above 3


def check_share(rule: str, share: float) -> None:
    """Raise ConfigError unless a share is from 0 to below one half."""
    if not 0 <= share < 0.5:
        raise ConfigError(
            f"{rule}: `share` should be from 0 to below 0.5, since no rule withstands a majority. "
            f"Found {share!r}."
        )


def left_out(update: Update, rule: str, reason: str) -> Note:
    """Return the note of an update that a rule does not use."""
    detail = {"rule": rule, "reason": reason}
    return Note("left_out", update.client_id, update.base_version, detail)
