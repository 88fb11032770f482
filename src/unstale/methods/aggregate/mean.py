"""FedAvg: the mean of the deltas, weighted by the numbers of examples."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from unstale.errors import ConfigError
from unstale.params import scale, weighted_mean
from unstale.updates import Aggregated, ServerView, State, Update


def mean_delta(updates: Sequence[Update]) -> dict[str, Tensor] | None:
    r"""Return $\sum_i n_i w_i \Delta_i / \sum_i n_i w_i$, or None if all weights are zero."""
    weights = [update.num_examples * update.weight for update in updates]
    if not any(weight > 0 for weight in weights):
        return None
    return weighted_mean([update.delta for update in updates], weights)


@dataclass(frozen=True, slots=True)
class FedAvg:
    r"""The weighted mean of the deltas, $\sum_i n_i w_i \Delta_i / \sum_i n_i w_i$.

    It averages *deltas*, each relative to its own base version, not models: averaging
    stale models would pull the global model back to old versions.

    Example:
        >>> FedAvg().server_lr
        1.0

    References:
        McMahan et al., "Communication-Efficient Learning of Deep Networks from
        Decentralized Data", 2017.
    """

    server_lr: float = 1.0
    """Server learning rate: factor on the mean delta; 1 is FedAvg."""

    def __post_init__(self) -> None:
        if not (self.server_lr > 0 and math.isfinite(self.server_lr)):
            raise ConfigError(f"`server_lr` should be a number above 0. Found {self.server_lr!r}.")

    def init(self) -> State:
        """Return the empty state."""
        return {}

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Aggregated:
        """Return the mean delta times the server learning rate."""
        mean = mean_delta(updates)
        if mean is not None and self.server_lr != 1.0:
            mean = scale(mean, self.server_lr)
        return Aggregated(mean, state)
