"""Waiting for replies: pauses that grow, a limit, and a line in the log now and then."""

import math
import numbers
from typing import Protocol

from unstale.errors import ConfigError

# Seconds between two log lines of one long wait.
TELL_EVERY = 30.0

# The first pause is this share of the longest one, later pauses this share of the time waited
# so far. In a simulation rounds take tenths of a second, on real devices minutes: a reply is
# noticed late by at most a tenth of the wait for it.
_FIRST_PAUSE = 0.1
_OF_THE_WAIT = 0.1


class Clock(Protocol):
    """What tells the time and lets it pass; the module `time` is one."""

    def monotonic(self) -> float:
        """Return seconds that never run backwards."""
        ...

    def sleep(self, seconds: float, /) -> None:
        """Return after that many seconds."""
        ...


class Wait:
    """One wait from now on, at most `limit` seconds long, with pauses up to `longest_pause`."""

    def __init__(self, clock: Clock, longest_pause: float, limit: float | None) -> None:
        self._clock = clock
        self._began = self._told = clock.monotonic()
        self._longest_pause = longest_pause
        self._limit = limit

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return self._clock.monotonic() - self._began

    @property
    def is_over(self) -> bool:
        """Whether its limit has passed."""
        return self._limit is not None and self.seconds >= self._limit

    def pause(self) -> None:
        """Sleep a little, longer each time, and never beyond the limit."""
        passed = self.seconds
        left = float("inf") if self._limit is None else self._limit - passed
        pause = max(self._longest_pause * _FIRST_PAUSE, passed * _OF_THE_WAIT)
        # At least a millisecond: what rounding leaves of a limit might not move the clock.
        self._clock.sleep(max(0.001, min(pause, self._longest_pause, left)))

    def should_tell(self) -> bool:
        """Return whether it is time for another line in the log."""
        now = self._clock.monotonic()
        if now - self._told < TELL_EVERY:
            return False
        self._told = now
        return True


def shorter(one: float | None, other: float | None) -> float | None:
    """Return the shorter of two limits, None being none.

    Example:
        >>> shorter(None, 60), shorter(3600, 60), shorter(None, None)
        (60, 60, None)
    """
    return min((limit for limit in (one, other) if limit is not None), default=None)


def check_seconds(name: str, value: float) -> None:
    """Raise ConfigError unless a setting is a finite number of seconds above 0."""
    plain = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not plain or not (math.isfinite(value) and value > 0):
        raise ConfigError(
            f"`{name}` should be a finite number of seconds above 0. Found {value!r}. "
            "Give seconds, or None for no limit."
        )
