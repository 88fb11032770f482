"""When a round of training closes, and how it went."""

import math
import numbers
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

from unstale.errors import ConfigError
from unstale.flower.waiting import check_seconds
from unstale.flower.work_book import Inherited, WorkBook

# What rounding may add to fraction × nodes: 0.07 × 100 is a little above 7.
_ROUNDING = 1e-9

Reason = Literal["replies", "complete", "time"]
"""Why a round closed: enough replies are there, nobody is left to wait for, or its time is up."""


@dataclass(frozen=True, slots=True)
class ClosePolicy:
    """When a round closes: enough fast nodes have answered, or its time is up.

    A node is fast until a round closes without its reply. Slow nodes are not waited for,
    except to reach `min_replies`; their replies belong to the round in which they come. A
    node that failed or left is taken out of the count, so that nobody waits for it.

    Example:
        >>> policy = ClosePolicy(fraction=0.8, deadline=60)
        >>> policy.needed(10)
        8
        >>> policy.is_met(fast=10, answered=8, arrivals=9)
        True
    """

    fraction: float = 1.0
    """Share of the fast nodes asked in this round that must have answered (rounded up)."""
    deadline: float | None = None
    """Seconds after which the round closes in any case; None for no deadline."""
    min_replies: int = 1
    """Fewest replies, late ones included, with which it closes before its deadline."""

    def __post_init__(self) -> None:
        plain = isinstance(self.fraction, numbers.Real) and not isinstance(self.fraction, bool)
        if not plain or not 0 < self.fraction <= 1:
            raise ConfigError(
                f"`fraction` should be a number above 0 and at most 1. Found {self.fraction!r}. "
                "Give the share of the fast nodes that a round waits for, such as 0.8."
            )
        if self.deadline is not None:
            check_seconds("deadline", self.deadline)
        if (
            isinstance(self.min_replies, bool)
            or not isinstance(self.min_replies, int)
            or self.min_replies < 1
        ):
            raise ConfigError(
                f"`min_replies` should be a whole number of at least 1. Found "
                f"{self.min_replies!r}. Give the fewest replies that make a round, such as 1."
            )

    def needed(self, fast: int) -> int:
        """Return how many of `fast` nodes must have answered."""
        return math.ceil(self.fraction * fast - _ROUNDING)

    def is_met(self, *, fast: int, answered: int, arrivals: int) -> bool:
        """Return whether the replies suffice.

        Args:
            fast: Fast nodes asked in this round, without those that failed since.
            answered: How many of them have answered.
            arrivals: All replies that would come out now, late ones included.
        """
        return answered >= self.needed(fast) and arrivals >= self.min_replies


@dataclass(frozen=True, slots=True)
class ClosedRound:
    """How a round of training went."""

    round: int
    """Its number."""
    asked: tuple[int, ...]
    """The nodes that were sent a message."""
    not_asked: Mapping[int, str]
    """Nodes for which there was a message that did not go out: "busy" or "refused"."""
    closed_by: Reason
    """Why it closed."""
    seconds: float
    """How long it took."""


def reason_to_close(
    policy: ClosePolicy, book: WorkBook, round: int, fast: AbstractSet[str], inherited: Inherited
) -> Reason | None:
    """Return why a round may close with the replies that are there, None if it may not.

    Args:
        policy: The rule.
        book: Which messages are out and which replies have come.
        round: Which round it is.
        fast: The ids of its messages to fast nodes.
        inherited: Replies of this round that a process took before it died.
    """
    coming = book.could_come(round)
    if not coming:
        return "complete"
    if any(work.is_delayed for work in coming):
        return None  # emulated lateness is exact: its time has come, so it is waited for
    answered = {work.message_id for work in book.due(round) if work.has_answer}
    missing = fast & book.out().keys()
    met = policy.is_met(
        fast=len(missing) + len(fast & answered) + inherited.answered,
        answered=len(fast & answered) + inherited.answered,
        arrivals=len(answered) + inherited.arrivals,
    )
    return "replies" if met else None
