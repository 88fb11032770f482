"""Cohorts: which clients a round draws, as if nobody were busy or away."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from unstale.errors import ConfigError
from unstale.seeding import numpy_generator


class Cohort(Protocol):
    """Selects the clients of a round."""

    def draw(
        self, round: int, fast_clients: Sequence[int], slow_clients: Sequence[int], seed: int
    ) -> list[int]:
        """Return the clients of a round, sorted.

        Args:
            round: The round, from 0.
            fast_clients: All fast clients, whether they are busy, away or neither.
            slow_clients: All slow clients.
            seed: Seed of the draws.
        """
        ...


@dataclass(frozen=True, slots=True)
class WholeCohort:
    """All clients are drawn, in every round."""

    def draw(
        self, round: int, fast_clients: Sequence[int], slow_clients: Sequence[int], seed: int
    ) -> list[int]:
        """Return all clients, sorted."""
        return sorted({int(client) for client in (*fast_clients, *slow_clients)})


@dataclass(frozen=True, slots=True)
class SampledCohort:
    """Clients are sampled uniformly without replacement in every round.

    Either `size` of all clients, or `fast` of the fast and `slow` of the slow ones; all of
    them if there are fewer. A client that is drawn but busy or away is absent: nobody is
    asked instead of it.
    """

    size: int | None = None
    """Number of clients, fast and slow together; set either this or both others."""
    fast: int | None = None
    """Number of fast clients."""
    slow: int | None = None
    """Number of slow clients."""

    def __post_init__(self) -> None:
        given = {
            name: value
            for name, value in (("size", self.size), ("fast", self.fast), ("slow", self.slow))
            if value is not None
        }
        if set(given) not in ({"size"}, {"fast", "slow"}):
            found = (
                ", ".join(f"{name} = {value}" for name, value in given.items()) or "none of them"
            )
            raise ConfigError(
                "Cohort 'sample' should have either size, or both fast and slow. "
                f"Found {found}. Choose one form."
            )
        if min(given.values()) < 0 or not sum(given.values()):
            found = ", ".join(f"{name} = {value}" for name, value in given.items())
            raise ConfigError(
                "Cohort 'sample' should draw at least one client a round, and no number should "
                f"be below 0. Found {found}. Raise it."
            )

    def draw(
        self, round: int, fast_clients: Sequence[int], slow_clients: Sequence[int], seed: int
    ) -> list[int]:
        """Return the clients with the lowest random numbers, sorted.

        Example:
            >>> cohort = SampledCohort(fast=3, slow=1)
            >>> drawn = cohort.draw(0, fast_clients=range(9), slow_clients=[9, 10], seed=0)
            >>> len(drawn), sum(client >= 9 for client in drawn)
            (4, 1)
        """
        if self.size is not None:
            return sorted(_lowest((*fast_clients, *slow_clients), self.size, round, seed))
        fast = _lowest(fast_clients, self.fast or 0, round, seed)
        slow = _lowest(slow_clients, self.slow or 0, round, seed)
        return sorted({*fast, *slow})


KINDS: dict[str, type[Cohort]] = {"all": WholeCohort, "sample": SampledCohort}
"""Cohorts by their `kind` in experiment files."""


def _lowest(clients: Iterable[int], count: int, round: int, seed: int) -> list[int]:
    """Return the `count` clients with the lowest random numbers in a round."""
    pool = sorted({int(client) for client in clients})
    if not pool:
        return []
    # Client i has the i-th number of the stream, whoever else is in the pool.
    lots = numpy_generator(seed, "cohort", int(round)).random(pool[-1] + 1)
    return sorted(pool, key=lambda client: float(lots[client]))[:count]
