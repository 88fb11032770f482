"""What an aggregator is: it makes one change of the global weights out of a round's updates."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from unstale.updates import Aggregated, ServerView, State, Update


@runtime_checkable
class Aggregator(Protocol):
    """Combines the (compensated) updates of one round; a frozen dataclass of settings."""

    def init(self) -> State:
        """Return the memory before the first round."""
        ...

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Aggregated:
        """Return the change, or None where there is nothing with a weight to combine."""
        ...
