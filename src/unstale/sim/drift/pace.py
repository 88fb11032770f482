"""The pace of a drift: how many samples of a client were replaced until a round."""

from fractions import Fraction
from typing import Protocol

from unstale.errors import ConfigError


class Pace(Protocol):
    """The settings that drifts share."""

    @property
    def per_round(self) -> float:
        """Number of samples of each client that are replaced in a round; may be a fraction."""
        ...

    @property
    def start(self) -> int:
        """The last round with the initial data."""
        ...

    @property
    def stop(self) -> int | None:
        """The last round in which data changes."""
        ...


def check_pace(pace: Pace) -> None:
    """Raise ConfigError if a setting is below 0 or the end is before the start."""
    for name, value in (("per_round", pace.per_round), ("start", pace.start)):
        if value < 0:
            raise ConfigError(f"Setting '{name}' should be at least 0. Found {value}. Raise it.")
    if pace.stop is not None and pace.stop < pace.start:
        raise ConfigError(
            f"Setting 'stop' should not be before start ({pace.start}). Found {pace.stop}. "
            "Raise it, or leave it out to change until the end."
        )


def refills_until(pace: Pace, round: int, samples: int) -> int:
    """Return how many samples of a client with `samples` of them were replaced until a round.

    A fraction adds up over rounds: a sample is replaced as soon as it is whole.
    """
    last = round if pace.stop is None else min(round, pace.stop)
    # As it is written: 100 rounds of 0.29 are 29, not the 28.999… that floats give.
    rate = min(Fraction(str(pace.per_round)), Fraction(samples))
    return int(max(0, last - pace.start) * rate)
