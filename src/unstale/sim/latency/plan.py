"""The protocols of latencies and their plans, and the plan with one latency per client."""

from dataclasses import dataclass
from typing import Protocol

from unstale.errors import ConfigError
from unstale.sim.partition import Indices


class LatencyPlan(Protocol):
    """The latency of every job of every client, for one partition and seed."""

    @property
    def slow(self) -> tuple[int, ...]:
        """The clients that the settings select as slow, sorted.

        They count as slow even with a latency of 0, so that a sweep of latencies down to 0
        has the same cohorts throughout.
        """
        ...

    def rounds(self, client: int, job_round: int) -> int:
        """Return how many rounds after `job_round` the update of that job arrives."""
        ...

    def typical(self, client: int) -> float:
        """Return the typical (median) latency of a client in rounds, for the report."""
        ...


class Latency(Protocol):
    """Determines how many rounds late updates arrive."""

    @property
    def affected(self) -> tuple[int, ...]:
        """The classes whose data is on slow clients; () if slowness does not depend on classes."""
        return ()

    def plan(self, hist: Indices, seed: int) -> LatencyPlan:
        """Return which clients are slow, and the latency of every job.

        Args:
            hist: Number of samples of every class on every client, [clients, classes].
            seed: Seed of the draws.

        Raises:
            ConfigError: If the settings do not fit these clients or classes.
        """
        ...


@dataclass(frozen=True, slots=True)
class FixedPlan:
    """A plan in which each client has one latency for all its jobs."""

    latencies: tuple[int, ...]
    """The latency of every client."""
    slow: tuple[int, ...] = ()
    """The slow clients."""

    def rounds(self, client: int, job_round: int) -> int:
        """Return the client's latency; it does not depend on the round."""
        return self.latencies[client]

    def typical(self, client: int) -> float:
        """Return the client's latency."""
        return float(self.latencies[client])


def check_at_least(name: str, value: float, least: float) -> None:
    """Raise ConfigError if a setting is below `least` or not finite."""
    if not least <= value < float("inf"):  # also refuses NaN
        raise ConfigError(
            f"Setting '{name}' should be finite and at least {least}. Found {value}. Correct it."
        )


def check_distinct(name: str, values: tuple[int, ...]) -> None:
    """Raise ConfigError if a list is empty, repeats a number, or holds one below 0."""
    if not values or len(set(values)) < len(values) or min(values) < 0:
        raise ConfigError(
            f"Setting '{name}' should list one or more different numbers, none below 0. "
            f"Found {list(values)}. Correct the list."
        )
