"""The time that is left, from the seconds of the rounds that are done."""

from collections import Counter
from collections.abc import Mapping


class TimeLeft:
    """Estimates the time that runs still take, method by method.

    Rounds of a method take about as long as its rounds so far; those of a method without any
    take as long as the mean of all. Seconds are those that rounds recorded of themselves, so
    that an estimate is right at once when a run is resumed.

    Args:
        planned: How many rounds each method takes in all.
        jobs: How many methods run side by side.

    Example:
        >>> left = TimeLeft({"a": 10, "b": 10})
        >>> for _ in range(5):
        ...     left.advance("a", 2.0)
        >>> left.seconds()  # five more of `a`, ten of `b`
        30.0
    """

    def __init__(self, planned: Mapping[str, int], jobs: int = 1) -> None:
        self.planned = dict(planned)
        self.jobs = jobs
        self._done: Counter[str] = Counter()
        self._seconds: Counter[str] = Counter()

    def advance(self, label: str, seconds: float) -> None:
        """Take note of a round and how long it took."""
        self._done[label] += 1
        self._seconds[label] += seconds  # type: ignore[assignment]

    def seconds(self) -> float | None:
        """Return the seconds that are left; None while nothing is known."""
        rounds = self._done.total()
        if not rounds:
            return None
        mean = self._seconds.total() / rounds
        left = 0.0
        for label, planned in self.planned.items():
            done = self._done[label]
            each = self._seconds[label] / done if done else mean
            left += max(0, planned - done) * each
        return left / self.jobs


def in_words(seconds: float | None) -> str:
    """Return a time in words.

    Example:
        >>> in_words(42), in_words(600), in_words(9000), in_words(None)
        ('about 42 s left', 'about 10 min left', 'about 2.5 h left', '')
    """
    return "" if seconds is None else f"about {duration(seconds)} left"


def duration(seconds: float) -> str:
    """Return a time in few characters.

    Example:
        >>> duration(0.4), duration(75), duration(600), duration(9000)
        ('0 s', '75 s', '10 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
