"""FedAvgM: momentum on the server."""

from dataclasses import dataclass

from unstale.methods.server_optimizers.base import Moved
from unstale.methods.server_optimizers.settings_checks import check_decay, check_lr
from unstale.params import Params, add
from unstale.updates import State


@dataclass(frozen=True, slots=True)
class FedAvgM:
    r"""Momentum: the weights move by a decaying sum of the changes so far.

    $$ v_t = \beta\, v_{t-1} + \Delta_t, \qquad w_{t+1} = w_t + \eta\, v_t, $$

    with $v_{-1} = 0$. In a steady direction it moves $1/(1-\beta)$ times as far as FedAvg, so a
    momentum usually wants a smaller learning rate.

    Example:
        >>> import torch
        >>> optimizer, start = FedAvgM(momentum=0.5), {"w": torch.zeros(1)}
        >>> first = optimizer.move(start, {"w": torch.ones(1)}, optimizer.init())
        >>> optimizer.move(first.params, {"w": torch.ones(1)}, first.state).params
        {'w': tensor([2.5000])}

    References:
        Hsu et al., "Measuring the Effects of Non-Identical Data Distribution for Federated
        Visual Classification", 2019.
    """

    lr: float = 1.0
    """η, the server's learning rate."""
    momentum: float = 0.9
    """β, the share of the sum that stays from round to round."""

    def __post_init__(self) -> None:
        check_lr("fedavgm", self.lr)
        check_decay("fedavgm", "momentum", self.momentum)

    def init(self) -> State:
        """Return the empty state."""
        return {}

    def move(self, params: Params, change: Params, state: State) -> Moved:
        """Add the change to the velocity, and the velocity to the weights."""
        before = state.get("velocity")
        velocity = (
            {n: p.clone() for n, p in change.items()}
            if before is None
            else {n: self.momentum * before[n] + p for n, p in change.items()}
        )
        return Moved(add(params, velocity, self.lr), {"velocity": velocity})
