"""When a client is there at all: clients that drop out and come back.

A client that is away is asked nothing and sends nothing. What becomes of work that it
had under way is the engine's business: the work is lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from unstale.errors import ConfigError
from unstale.seeding import numpy_generator
from unstale.sim.trace import check_path, read_trace


class AvailabilityPlan(Protocol):
    """The comings and goings of all clients, decided."""

    def available(self, client: int, round: int) -> bool:
        """Say whether a client is there in a round, counted from 0.

        The answer does not depend on what was asked before.
        """
        ...


class Availability(Protocol):
    """A way to say when clients are there."""

    def plan(self, clients: int, seed: int) -> AvailabilityPlan:
        """Decide when each of the clients 0 … clients − 1 is there."""
        ...


@dataclass(frozen=True, slots=True)
class AlwaysAvailable:
    """Every client is there in every round."""

    def plan(self, clients: int, seed: int) -> "AbsencePlan":
        """Return a plan without absences."""
        return AbsencePlan({})


@dataclass(frozen=True, slots=True)
class MarkovAvailability:
    """Clients leave and come back by chance, each on its own.

    In the long run a client is there for back / (drop + back) of the rounds, and it is
    away for 1 / back rounds at a time on average.
    """

    drop: float = 0.1
    """The probability that a client that is there is gone in the next round."""
    back: float = 0.5
    """The probability that a client that is away is there in the next round; 0: never again."""
    start: float = 1.0
    """The share of clients that are there in round 0, drawn by the seed."""

    def __post_init__(self) -> None:
        for name, value in (("drop", self.drop), ("back", self.back), ("start", self.start)):
            if not 0 <= value <= 1:
                raise ConfigError(
                    f"Setting '{name}' should be from 0 to 1. Found {value}. Correct it."
                )

    def plan(self, clients: int, seed: int) -> "MarkovPlan":
        """Draw who is there at first; what follows is drawn when it is asked for.

        Example:
            >>> plan = MarkovAvailability(drop=0.0, start=0.5).plan(clients=10, seed=0)
            >>> [sum(plan.available(client, r) for client in range(10)) for r in (0, 99)]
            [5, 10]
        """
        rng = numpy_generator(seed, "availability", "start")
        present = rng.choice(clients, round(self.start * clients), replace=False)
        return MarkovPlan(self.drop, self.back, frozenset(int(c) for c in present), seed)


@dataclass(frozen=True, slots=True)
class MarkovPlan:
    """One chain of rounds per client, drawn as far as it was asked for."""

    drop: float
    """The probability to leave."""
    back: float
    """The probability to come back."""
    present: frozenset[int]
    """The clients that are there in round 0."""
    seed: int
    """The seed of all draws."""
    _chains: dict[int, tuple[np.random.Generator, list[bool]]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def available(self, client: int, round: int) -> bool:
        """Say whether a client is there in a round."""
        client = int(client)  # a NumPy integer would name another random stream
        if client not in self._chains:
            rng = numpy_generator(self.seed, "availability", "chain", client)
            self._chains[client] = (rng, [client in self.present])
        rng, chain = self._chains[client]
        # A chain is drawn round by round from a stream of its own, so how far it was drawn
        # by earlier questions changes nothing.
        for chance in rng.random(max(0, round + 1 - len(chain))):
            chain.append(bool(chance >= self.drop if chain[-1] else chance < self.back))
        return chain[round]


@dataclass(frozen=True, slots=True)
class TraceAvailability:
    """Absences from a CSV file with the header `client,from,to`.

    A client is away from round `from` up to, but not in, round `to`. Rows may come in
    any order and may overlap; clients without a row are always there.
    """

    path: str = ""
    """The CSV file."""

    def __post_init__(self) -> None:
        check_path(self.path)

    def plan(self, clients: int, seed: int) -> "AbsencePlan":
        """Read the file."""
        absences: dict[int, list[tuple[int, int]]] = {}
        for line, (client, start, stop) in read_trace(self.path, ("client", "from", "to"), clients):
            if start >= stop:
                raise ConfigError(
                    f"Line {line} of {self.path} should have 'from' below 'to'. "
                    f"Found {start} and {stop}. Correct the line."
                )
            absences.setdefault(client, []).append((start, stop))
        return AbsencePlan({client: tuple(spans) for client, spans in absences.items()})


@dataclass(frozen=True, slots=True)
class AbsencePlan:
    """Clients are there except in listed intervals of rounds."""

    absences: Mapping[int, tuple[tuple[int, int], ...]]
    """For every client that is ever away: the intervals [from, to) of its absence."""

    def available(self, client: int, round: int) -> bool:
        """Say whether a client is there in a round."""
        return not any(start <= round < stop for start, stop in self.absences.get(client, ()))


KINDS: dict[str, type[Availability]] = {
    "always": AlwaysAvailable,
    "markov": MarkovAvailability,
    "trace": TraceAvailability,
}
"""The availabilities by the name that an experiment file gives as `kind`."""
