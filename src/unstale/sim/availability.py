"""When a client is there at all: clients that drop out and come back.

A client that is away is asked nothing and sends nothing. What becomes of work that it
had under way is the engine's business: the work is lost. The reader of trace files
lives here too, because latencies may come from one as well.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from unstale.errors import ConfigError
from unstale.seeding import numpy_generator


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


def read_trace(
    path: str, columns: tuple[str, ...], clients: int
) -> list[tuple[int, tuple[int, ...]]]:
    """Read a CSV file of whole numbers whose first column is a client's number.

    Args:
        path: The file; UTF-8, with a header, blank lines allowed.
        columns: The header that the file should have.
        clients: How many clients there are.

    Returns:
        The line number and the values of every row.

    Raises:
        ConfigError: The file cannot be read, or a line is not as it should be.
    """
    header = ",".join(columns)
    try:
        # utf-8-sig, because spreadsheets put a byte order mark before the header
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(
            f"The trace {path} should be a readable CSV file with the header {header}. "
            f"Found: {error}. Check the path and the file."
        ) from error
    if not lines or tuple(lines[0][1]) != columns:
        found = f"'{','.join(lines[0][1])}'" if lines else "an empty file"
        number = lines[0][0] if lines else 1
        raise ConfigError(
            f"Line {number} of {path} should be the header {header}. Found {found}. Add the header."
        )
    rows = []
    for number, cells in lines[1:]:
        if len(cells) != len(columns) or not all(c.isascii() and c.isdigit() for c in cells):
            raise ConfigError(
                f"Line {number} of {path} should be {len(columns)} whole numbers ({header}), "
                f"none below 0. Found '{','.join(cells)}'. Correct the line."
            )
        values = tuple(int(cell) for cell in cells)
        if values[0] >= clients:
            raise ConfigError(
                f"Line {number} of {path} should name a client from 0 to {clients - 1}. "
                f"Found {values[0]}. Remove the line, or raise the number of clients."
            )
        rows.append((number, values))
    return rows


def check_path(path: str) -> None:
    """Refuse a trace without a path."""
    if not path:
        raise ConfigError("Setting 'path' should name a CSV file. Found none. Add path = \"…\".")
