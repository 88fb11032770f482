"""The end of a round of training: whether it may close yet, and how it went."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from unstale.flower.closing import Closing
from unstale.flower.work_tickets import TicketBook


@dataclass(frozen=True, slots=True)
class ClosedRound:
    """How the last round of training went."""

    round: int
    """Its number."""
    asked: tuple[int, ...]
    """The nodes that were sent a message."""
    not_asked: Mapping[int, str]
    """Nodes for which there was a message that did not go out: "busy" or "refused"."""
    closed_by: str
    """Why it closed: "replies", "complete" (nobody is left to wait for) or "time"."""
    seconds: float
    """How long it took."""


@dataclass(frozen=True, slots=True)
class Before:
    """What a round has before it begins, because a process died in it. Usually nothing."""

    answered: int = 0
    """Nodes that were asked in this round and have answered; they count as fast."""
    arrivals: int = 0
    """All replies that come out in it, late ones included."""


def reason_to_close(
    closing: Closing, book: TicketBook, round: int, fast: AbstractSet[str], before: Before
) -> str | None:
    """Return why a round may close with the replies that are there, None if it may not.

    Args:
        closing: The rule.
        book: What is out and what has come in.
        round: Which round it is.
        fast: The ids of its messages to fast nodes.
        before: What was there already.
    """
    coming = list(book.could_come(round))
    if not coming:
        return "complete"
    if any(book.is_delayed(ticket) for ticket in coming):
        return None  # emulated lateness is exact: its time has come, so it is waited for
    answered = {p.ticket.message_id for p in book.due(round) if p.has_answer}
    missing = fast & book.out.keys()
    met = closing.is_met(
        fast=len(missing) + len(fast & answered) + before.answered,
        answered=len(fast & answered) + before.answered,
        arrivals=len(answered) + before.arrivals,
    )
    return "replies" if met else None
