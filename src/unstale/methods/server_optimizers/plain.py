"""Plain: the aggregated change is added to the weights, as FedAvg does."""

from dataclasses import dataclass

from unstale.methods.server_optimizers.base import Moved
from unstale.params import Params, add
from unstale.updates import State


@dataclass(frozen=True, slots=True)
class Plain:
    r"""No optimizer: $w_{t+1} = w_t + \Delta_t$. The default.

    References:
        McMahan et al., "Communication-Efficient Learning of Deep Networks from
        Decentralized Data", 2017.
    """

    def init(self) -> State:
        """Return the empty state."""
        return {}

    def move(self, params: Params, change: Params, state: State) -> Moved:
        """Add the change."""
        return Moved(add(params, change), state)
