"""Availability: clients that drop out and come back.

An unavailable client is not asked and sends nothing. The engine discards the work that
it had started.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from unstale.errors import ConfigError
from unstale.seeding import numpy_generator
from unstale.sim.trace import check_path, read_trace


class AvailabilityPlan(Protocol):
    """The availability of every client in every round, for one seed."""

    def available(self, client: int, round: int) -> bool:
        """Return whether a client is available in a round (from 0).

        The result does not depend on earlier calls.
        """
        ...


class Availability(Protocol):
    """Determines when clients are available."""

    def plan(self, clients: int, seed: int) -> AvailabilityPlan:
        """Return when each of the clients 0 … clients − 1 is available."""
        ...


@dataclass(frozen=True, slots=True)
class AlwaysAvailable:
    """All clients are available in every round."""

    def plan(self, clients: int, seed: int) -> "AbsencePlan":
        """Return a plan without absences."""
        return AbsencePlan({})


@dataclass(frozen=True, slots=True)
class MarkovAvailability:
    """Clients drop out and come back at random, as independent two-state Markov chains.

    In the long run a client is available in a share back / (drop + back) of the rounds. An
    absence takes 1 / back rounds on average.
    """

    drop: float = 0.1
    """The probability that an available client is unavailable in the next round."""
    back: float = 0.5
    """The probability that an unavailable client is available in the next round; with 0 clients
    never come back."""
    start: float = 1.0
    """The share of clients, drawn at random, that are available in round 0."""

    def __post_init__(self) -> None:
        for name, value in (("drop", self.drop), ("back", self.back), ("start", self.start)):
            if not 0 <= value <= 1:
                raise ConfigError(
                    f"Setting '{name}' should be from 0 to 1. Found {value}. Correct it."
                )

    def plan(self, clients: int, seed: int) -> "MarkovPlan":
        """Draw the clients that are available in round 0; later rounds are drawn on demand.

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
    """The plan of `MarkovAvailability`: one chain per client, drawn on demand."""

    drop: float
    """The probability to drop out."""
    back: float
    """The probability to come back."""
    present: frozenset[int]
    """The clients that are available in round 0."""
    seed: int
    """Seed of the draws."""
    _chains: dict[int, tuple[np.random.Generator, list[bool]]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def available(self, client: int, round: int) -> bool:
        """Return whether a client is available in a round."""
        client = int(client)  # it may be a NumPy integer
        if client not in self._chains:
            rng = numpy_generator(self.seed, "availability", "chain", client)
            self._chains[client] = (rng, [client in self.present])
        rng, chain = self._chains[client]
        # Each chain is drawn in order from a stream of its own, so earlier calls change nothing.
        for chance in rng.random(max(0, round + 1 - len(chain))):
            chain.append(bool(chance >= self.drop if chain[-1] else chance < self.back))
        return chain[round]


@dataclass(frozen=True, slots=True)
class TraceAvailability:
    """Absences from a CSV file with the header `client,from,to`.

    A client is unavailable from round `from` up to, but not including, round `to`. Rows may
    be in any order and may overlap. Clients without a row are always available.
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
    """A plan in which clients are unavailable in given intervals of rounds."""

    absences: Mapping[int, tuple[tuple[int, int], ...]]
    """The intervals [from, to) of absence, by client."""

    def available(self, client: int, round: int) -> bool:
        """Return whether a client is available in a round."""
        return not any(start <= round < stop for start, stop in self.absences.get(client, ()))


KINDS: dict[str, type[Availability]] = {
    "always": AlwaysAvailable,
    "markov": MarkovAvailability,
    "trace": TraceAvailability,
}
"""Availabilities by their `kind` in experiment files."""
