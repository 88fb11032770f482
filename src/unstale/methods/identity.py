"""No compensation: stale updates are used unchanged."""

from collections.abc import Sequence
from dataclasses import dataclass

from unstale.methods.base import Stateless
from unstale.updates import Outcome, ServerView, State, Update


@dataclass(frozen=True, slots=True)
class Identity(Stateless):
    """Returns every update unchanged.

    Example:
        >>> Identity().lookback
        0
    """

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Return the updates."""
        return Outcome(tuple(updates), state)
