"""Latencies that are set per client, class or trace, and the table of all latencies.

A latency (the settings) returns a plan for given clients. The plan gives, for every job
(the work that a client starts in round `job_round`), the number of rounds after which its
update arrives; 0 is within the same round. It depends on seed, client and round only.
"""

import logging
import statistics
from bisect import bisect_right
from dataclasses import dataclass

from unstale.errors import ConfigError
from unstale.sim.latency.drawn import LognormalLatency, ParetoLatency, UniformLatency
from unstale.sim.latency.plan import FixedPlan, Latency, check_at_least, check_distinct
from unstale.sim.partition import Indices, holders
from unstale.sim.trace import check_path, read_trace

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NoLatency(Latency):
    """All updates arrive within their round."""

    def plan(self, hist: Indices, seed: int) -> FixedPlan:
        """Return a plan of zeros."""
        return FixedPlan((0,) * len(hist))


@dataclass(frozen=True, slots=True)
class ConstantLatency(Latency):
    """The given clients, or all of them, always have the same latency."""

    rounds: int | tuple[int, ...] = 10
    """The latency in rounds: one number, or one for each of `clients`."""
    clients: tuple[int, ...] | None = None
    """Indices of the slow clients; all clients if not given."""

    def __post_init__(self) -> None:
        if not isinstance(self.rounds, int):
            object.__setattr__(self, "rounds", tuple(self.rounds))  # TOML gives lists
        if self.clients is not None:
            object.__setattr__(self, "clients", tuple(self.clients))
            check_distinct("clients", self.clients)
        if isinstance(self.rounds, tuple) and len(self.rounds) != len(self.clients or ()):
            raise ConfigError(
                f"Setting 'rounds' should be one number, or one for each of the "
                f"{len(self.clients or ())} clients that are listed. Found {len(self.rounds)}. "
                "Add or remove some."
            )
        for rounds in self.rounds if isinstance(self.rounds, tuple) else (self.rounds,):
            check_at_least("rounds", rounds, 0)

    def plan(self, hist: Indices, seed: int) -> FixedPlan:
        """Return a plan with `rounds` for the given clients and 0 for the others.

        Example:
            >>> import numpy as np
            >>> plan = ConstantLatency(rounds=7, clients=(1,)).plan(np.ones((3, 2), int), seed=0)
            >>> [plan.rounds(client, job_round=0) for client in range(3)]
            [0, 7, 0]
        """
        every = range(len(hist))
        clients = tuple(every) if self.clients is None else self.clients
        each = self.rounds if isinstance(self.rounds, tuple) else (self.rounds,) * len(clients)
        late = dict(zip(clients, each, strict=True))
        slow = tuple(sorted(clients))
        if slow and slow[-1] not in every:
            raise ConfigError(
                f"Latency 'constant' should name clients from 0 to {len(hist) - 1}. "
                f"Found {slow[-1]}. Correct its clients."
            )
        return FixedPlan(tuple(late.get(client, 0) for client in every), slow)


@dataclass(frozen=True, slots=True)
class TraceLatency(Latency):
    """Latencies from a CSV file with the header `client,round,latency`.

    The latency of a job is that of its client's last row at or before the job's round, and 0
    before the first row. Clients without a row are never late. Rows may be in any order.
    """

    path: str = ""
    """The CSV file."""

    def __post_init__(self) -> None:
        check_path(self.path)

    def plan(self, hist: Indices, seed: int) -> "TracePlan":
        """Read the file."""
        rows: dict[int, dict[int, int]] = {}
        columns = ("client", "round", "latency")
        for line, (client, start, latency) in read_trace(self.path, columns, len(hist)):
            if start in rows.setdefault(client, {}):
                raise ConfigError(
                    f"Line {line} of {self.path} should be the only one for client {client} and "
                    f"round {start}. Found an earlier one. Remove one of them."
                )
            rows[client][start] = latency
        return TracePlan({c: tuple(sorted(steps.items())) for c, steps in sorted(rows.items())})


@dataclass(frozen=True, slots=True)
class TracePlan:
    """A plan of latencies that are piecewise constant in the round."""

    steps: dict[int, tuple[tuple[int, int], ...]]
    """(first round, latency) pairs in order of rounds, by client."""

    @property
    def slow(self) -> tuple[int, ...]:
        """The clients that have a row."""
        return tuple(self.steps)

    def rounds(self, client: int, job_round: int) -> int:
        """Return the latency of the client's last row at or before the round."""
        steps = self.steps.get(client, ())
        row = bisect_right(steps, job_round, key=lambda step: step[0]) - 1
        return steps[row][1] if row >= 0 else 0

    def typical(self, client: int) -> float:
        """Return the median of the client's rows."""
        steps = self.steps.get(client, ((0, 0),))
        return float(statistics.median(latency for _, latency in steps))


@dataclass(frozen=True, slots=True)
class IntertwinedLatency(Latency):
    """The clients that hold the most samples of an affected class are slow.

    This intertwines device and data heterogeneity, as in the paper: few fast clients hold
    the data of slow ones. A client that is slow for several classes gets the longest of
    their latencies.
    """

    classes: tuple[int, ...] = (5,)
    """The affected classes."""
    clients: int = 10
    """Number of slow clients per affected class: those with the most samples of it."""
    rounds: int | tuple[int, ...] = 40
    """Latency τ of the slow clients: one number, or one per affected class."""
    others: int = 0
    """The latency of all other clients."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(self.classes))  # TOML gives lists
        if not isinstance(self.rounds, int):
            object.__setattr__(self, "rounds", tuple(self.rounds))
        check_distinct("classes", self.classes)
        check_at_least("clients", self.clients, 1)
        check_at_least("others", self.others, 0)
        if isinstance(self.rounds, tuple) and len(self.rounds) != len(self.classes):
            raise ConfigError(
                f"Setting 'rounds' should be one number, or {len(self.classes)}: one for each "
                f"affected class. Found {len(self.rounds)}. Add or remove some."
            )
        for rounds in self._rounds_by_class():
            check_at_least("rounds", rounds, 0)

    @property
    def affected(self) -> tuple[int, ...]:
        """The affected classes."""
        return self.classes

    def plan(self, hist: Indices, seed: int) -> FixedPlan:
        """Return a plan in which the holders of affected classes are slow; `seed` is not used.

        Example:
            >>> import numpy as np
            >>> hist = np.array([[9, 0], [0, 9], [5, 5]])
            >>> plan = IntertwinedLatency(classes=(0,), clients=2, rounds=40).plan(hist, seed=0)
            >>> plan.slow, plan.latencies
            ((0, 2), (40, 0, 40))
        """
        slow: dict[int, int] = {}
        for klass, rounds in zip(self.classes, self._rounds_by_class(), strict=True):
            chosen = holders(hist, klass, self.clients)
            idle = sum(hist[client, klass] == 0 for client in chosen)
            if idle:
                text = "%d of the %d clients that are slow for class %d hold no sample of it"
                logger.warning(text, idle, len(chosen), klass)
            for client in chosen:
                slow[client] = max(rounds, slow.get(client, 0))
        latencies = tuple(slow.get(client, self.others) for client in range(len(hist)))
        return FixedPlan(latencies, tuple(sorted(slow)))

    def _rounds_by_class(self) -> tuple[int, ...]:
        return self.rounds if isinstance(self.rounds, tuple) else (self.rounds,) * len(self.classes)


KINDS: dict[str, type[Latency]] = {
    "none": NoLatency,
    "constant": ConstantLatency,
    "uniform": UniformLatency,
    "lognormal": LognormalLatency,
    "pareto": ParetoLatency,
    "trace": TraceLatency,
    "intertwined": IntertwinedLatency,
}
"""Latencies by their `kind` in experiment files."""
