"""What every latency answers, and the plan in which each client is always equally late."""

from dataclasses import dataclass
from typing import Protocol

from unstale.errors import ConfigError
from unstale.sim.partition import Indices


class LatencyPlan(Protocol):
    """The delays of all clients, decided."""

    @property
    def slow(self) -> tuple[int, ...]:
        """The clients that the setting picks out as slow, sorted.

        They stay so at latency 0: a sweep down to 0 compares the same cohorts.
        """
        ...

    def rounds(self, client: int, job_round: int) -> int:
        """Return how many rounds after `job_round` the update of that job arrives."""
        ...

    def typical(self, client: int) -> float:
        """Return a client's usual latency in rounds, for the report."""
        ...


class Latency(Protocol):
    """A way to say how late updates arrive."""

    @property
    def affected(self) -> tuple[int, ...]:
        """The classes whose data sits on slow clients; () where slowness ignores classes."""
        return ()

    def plan(self, hist: Indices, seed: int) -> LatencyPlan:
        """Decide who is slow and by how much.

        Args:
            hist: How many samples of every class every client holds, [clients, classes].
            seed: Another seed gives other draws.

        Raises:
            ConfigError: The settings do not fit these clients or classes.
        """
        ...


@dataclass(frozen=True, slots=True)
class FixedPlan:
    """Every client has one latency for all its jobs."""

    latencies: tuple[int, ...]
    """The latency of every client."""
    slow: tuple[int, ...] = ()
    """The clients that count as slow."""

    def rounds(self, client: int, job_round: int) -> int:
        """Return the client's latency, whatever the round."""
        return self.latencies[client]

    def typical(self, client: int) -> float:
        """Return the client's latency."""
        return float(self.latencies[client])


def check_at_least(name: str, value: float, least: float) -> None:
    """Refuse a setting that is below `least` or not finite."""
    if not least <= value < float("inf"):  # also refuses NaN
        raise ConfigError(
            f"Setting '{name}' should be finite and at least {least}. Found {value}. Correct it."
        )


def check_distinct(name: str, values: tuple[int, ...]) -> None:
    """Refuse a list that is empty, repeats a number, or holds one below 0."""
    if not values or len(set(values)) < len(values) or min(values) < 0:
        raise ConfigError(
            f"Setting '{name}' should list one or more different numbers, none below 0. "
            f"Found {list(values)}. Correct the list."
        )
