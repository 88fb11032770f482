"""Absent clients: which of them a compensator can stand in for.

The engine tells the server which clients a round drew but could not ask, because they are
at work or away. With those that are owed a turn (`server/turns.py`) they are
`ServerView.absent`. A compensator that remembers something about a client
may add an update for it, marked by `Update.stand_in`. All others ignore `absent`.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

from unstale.methods.base import Compensator, Wrapper
from unstale.updates import ServerView, State, Update


@runtime_checkable
class StandsIn(Protocol):
    """A compensator that can say for which clients it would add an update."""

    def stands_in_for(self, state: State, version: int) -> frozenset[str]:
        """Return the clients that it would stand in for at this version, were they absent."""
        ...


def stood_in_for(compensator: Compensator, state: State, version: int) -> frozenset[str]:
    """Return the clients that a compensator, or one inside it, would stand in for."""
    if isinstance(compensator, StandsIn):
        return compensator.stands_in_for(state, version)
    found: frozenset[str] = frozenset()
    if isinstance(compensator, Wrapper):
        for part, memory in compensator.parts(state):
            found |= stood_in_for(part, memory, version)
    return found


def without_absent(view: ServerView, is_left_out: Callable[[str], bool]) -> ServerView:
    """Return the view with fewer absent clients, for a part inside a wrapper."""
    if not view.absent:
        return view
    kept = tuple(client for client in view.absent if not is_left_out(client))
    return dataclasses.replace(view, absent=kept)


def still_absent(view: ServerView, updates: Iterable[Update]) -> ServerView:
    """Return the view without absent clients that another part has stood in for."""
    present = {update.client_id for update in updates}
    return without_absent(view, present.__contains__)
