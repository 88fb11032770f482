"""Watching: updates that a compensator is not asked to change, but may remember.

A wrapper such as `only_unique` hands only some updates to the compensator inside it. The
others still tell something about their clients, so it shows them with `watched`. A
compensator that remembers updates implements `watch`; all others need nothing.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from unstale.methods.base import Compensator
from unstale.updates import ServerView, State, Update


@runtime_checkable
class Watches(Protocol):
    """A compensator that may remember updates that it is not asked to change."""

    def watch(self, updates: Sequence[Update], state: State, view: ServerView) -> State:
        """Return the state after these updates of the round were seen; they stay as they are."""
        ...


def watched(
    compensator: Compensator, updates: Sequence[Update], state: State, view: ServerView
) -> State:
    """Return a compensator's state after it was shown updates that pass it by.

    Call it before `apply`, so that updates of the same round can make use of them.
    """
    if updates and isinstance(compensator, Watches):
        return compensator.watch(updates, state, view)
    return state
