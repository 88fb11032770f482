"""When a round closes: enough fast nodes have answered, or its time is up."""

import math
import numbers
from dataclasses import dataclass

from unstale.errors import ConfigError

# What rounding may add to fraction × nodes: 0.07 × 100 is a little above 7.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Closing:
    """The rule by which a round ends; replies that come later belong to a later round.

    A node that failed or left is taken out of the count, so that it holds nobody up.
    Slow nodes are never waited for, except to reach `min_replies`.

    Example:
        >>> rule = Closing(fraction=0.8, deadline=60)
        >>> rule.needed(10)
        8
        >>> rule.is_met(fast=10, answered=8, arrivals=9)
        True
    """

    fraction: float = 1.0
    """Of the fast nodes asked in this round, the share whose replies close it (rounded up)."""
    deadline: float | None = None
    """Seconds after which the round closes in any case; None: it waits for its replies."""
    min_replies: int = 1
    """It never closes (deadline apart) with fewer replies, late ones included."""

    def __post_init__(self) -> None:
        if not _is_number(self.fraction) or not 0 < self.fraction <= 1:
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


def check_seconds(name: str, value: float) -> None:
    """Raise ConfigError unless a setting is a finite number of seconds above 0."""
    if not _is_number(value) or not (math.isfinite(value) and value > 0):
        raise ConfigError(
            f"`{name}` should be a finite number of seconds above 0. Found {value!r}. "
            "Give seconds, or None for no limit."
        )


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
