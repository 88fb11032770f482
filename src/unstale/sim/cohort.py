"""Which clients the server asks in a round."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from unstale.errors import ConfigError
from unstale.seeding import numpy_generator


class Cohort(Protocol):
    """A way to choose the clients of a round."""

    def draw(
        self, round: int, fast_clients: Sequence[int], slow_clients: Sequence[int], seed: int
    ) -> list[int]:
        """Return the sorted numbers of the clients that are asked in a round.

        Args:
            round: The round, counted from 0.
            fast_clients: The clients that could be asked and are not slow.
            slow_clients: The slow clients that could be asked.
            seed: Another seed gives other cohorts.
        """
        ...


@dataclass(frozen=True, slots=True)
class WholeCohort:
    """Every client that could be asked is asked, in every round."""

    def draw(
        self, round: int, fast_clients: Sequence[int], slow_clients: Sequence[int], seed: int
    ) -> list[int]:
        """Return all clients, sorted."""
        return sorted({int(client) for client in (*fast_clients, *slow_clients)})


@dataclass(frozen=True, slots=True)
class SampledCohort:
    """Some of the clients, drawn without replacement.

    Either `size` clients of all, or `fast` of the fast and `slow` of the slow ones.
    Where there are fewer, all of them are asked.

    Every client draws a lot for the round and the lowest lots win. So a client that is
    out of reach is replaced by the next one and changes nothing for the others.
    """

    size: int | None = None
    """How many clients of all, fast and slow together; set this or the two below."""
    fast: int | None = None
    """How many of the fast clients."""
    slow: int | None = None
    """How many of the slow clients."""

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
                "Cohort 'sample' should ask at least one client a round, and no number should "
                f"be below 0. Found {found}. Raise it."
            )

    def draw(
        self, round: int, fast_clients: Sequence[int], slow_clients: Sequence[int], seed: int
    ) -> list[int]:
        """Return the sorted numbers of the clients with the lowest lots.

        Example:
            >>> cohort = SampledCohort(fast=3, slow=1)
            >>> asked = cohort.draw(0, fast_clients=range(9), slow_clients=[9, 10], seed=0)
            >>> len(asked), sum(client >= 9 for client in asked)
            (4, 1)
        """
        if self.size is not None:
            return sorted(_lowest((*fast_clients, *slow_clients), self.size, round, seed))
        fast = _lowest(fast_clients, self.fast or 0, round, seed)
        slow = _lowest(slow_clients, self.slow or 0, round, seed)
        return sorted({*fast, *slow})


KINDS: dict[str, type[Cohort]] = {"all": WholeCohort, "sample": SampledCohort}
"""The cohorts by the name that an experiment file gives as `kind`."""


def _lowest(clients: Iterable[int], count: int, round: int, seed: int) -> list[int]:
    """Return the `count` clients with the lowest lots of a round."""
    pool = sorted({int(client) for client in clients})
    if not pool:
        return []
    # Lot i is the i-th number of the stream, so it does not depend on who else takes part.
    lots = numpy_generator(seed, "cohort", int(round)).random(pool[-1] + 1)
    return sorted(pool, key=lambda client: float(lots[client]))[:count]
