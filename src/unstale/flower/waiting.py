"""Waiting for replies: pauses that grow, a limit, and a sign of life now and then."""

from typing import Protocol

# Seconds between two log lines of one long wait.
TELL_EVERY = 30.0

# The first pause of a wait as a share of the longest; from there pauses are a share of what
# was waited already, so that looking too late costs little beside it: in a simulation rounds
# take tenths of a second, on real devices minutes.
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
