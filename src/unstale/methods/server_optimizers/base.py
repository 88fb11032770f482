"""The protocol of server optimizers: from a round's aggregated change to the next weights."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from unstale.params import Params
from unstale.updates import State


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """The result of a server optimizer: the new weights, and its new state."""

    params: Params
    state: State


@runtime_checkable
class ServerOptimizer(Protocol):
    """Moves the global weights by what was aggregated in a round.

    The aggregated change takes the place of a gradient (with its sign turned round). A frozen
    dataclass of settings; its memory is in the state, which a checkpoint stores. It is called
    only in rounds that have a change, after compensation and aggregation, and never gets
    running statistics of BatchNorm.
    """

    def init(self) -> State:
        """Return the state before the first round."""
        ...

    def move(self, params: Params, change: Params, state: State) -> Moved:
        """Return the next weights and the next state; the arguments are not changed.

        Args:
            params: The current weights.
            change: What was aggregated: the mean of the deltas, for FedAvg.
            state: What `init` or the call before has returned.
        """
        ...
