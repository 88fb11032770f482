"""Turns: who is stood in for, so that lateness changes when a client takes part, not how often.

Without delay a client takes part in every round that draws it. A client that works on one
model at a time, and is therefore late, should take part as often:

- It is asked: its answer will count later, in place of this round.
- It is drawn while it is at work or away: it is stood in for.
- Its late answer comes in a round that did not draw it: that makes up for the round in which
  it was asked.
- Its late answer comes in a round that has drawn it: the answer counts for this round, so
  nothing has made up for the other. The client *is owed a turn*. It is stood in for when it
  is asked again, beside being asked.

Where every round draws all clients, the last case is the only one. A class that one client
alone holds would otherwise be missing from the average in the very round in which that
client begins to work again.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Turns:
    """Who is stood in for in a round, and who is owed a turn after it."""

    absent: frozenset[str]
    """The clients to stand in for."""
    owed: frozenset[str]
    """The clients that are stood in for when they are asked next."""


def take_turns(
    *,
    absent: Iterable[str] | None,
    asked: Iterable[str],
    answered: Iterable[str],
    owed: frozenset[str],
) -> Turns:
    """Return the turns of one round.

    Args:
        absent: Clients that the round drew but that are at work or away; None if nobody is to
            be stood in for, and no turn is taken.
        asked: Clients that have begun to train on the current version and have not answered.
        answered: Clients whose own updates take part in the round, however late.
        owed: The clients that are owed a turn from before.

    Example:
        A late answer comes in a round that has drawn the client, which then begins again:

        >>> late = take_turns(absent=["c"], asked=[], answered=["c"], owed=frozenset())
        >>> sorted(late.absent), sorted(late.owed)
        ([], ['c'])
        >>> again = take_turns(absent=[], asked=["c"], answered=[], owed=late.owed)
        >>> sorted(again.absent), sorted(again.owed)
        (['c'], [])
    """
    if absent is None:
        return Turns(frozenset(), owed)
    drawn, here = frozenset(absent), frozenset(answered)
    given = owed & frozenset(asked) - here
    return Turns((drawn | given) - here, (owed - given) | (drawn & here))
