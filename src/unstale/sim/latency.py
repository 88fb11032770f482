"""How many rounds late a client's updates arrive.

A latency (settings) makes a plan for given clients. A plan answers for every job, the
work that a client starts in round `job_round`, after how many rounds its update
arrives; 0 is within the round. The answer depends on seed, client and round only.
"""

import logging
import math
import statistics
from abc import abstractmethod
from bisect import bisect_right
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from unstale.errors import ConfigError, UnknownNameError
from unstale.seeding import numpy_generator
from unstale.sim.availability import check_path, read_trace
from unstale.sim.partition import Indices, holders

logger = logging.getLogger(__name__)

_NEVER = 10**9  # rounds: later than any run ends; heavy tails would else overflow an int


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


@dataclass(frozen=True, slots=True)
class NoLatency(Latency):
    """Every update arrives within its round."""

    def plan(self, hist: Indices, seed: int) -> FixedPlan:
        """Return a plan of zeros."""
        return FixedPlan((0,) * len(hist))


@dataclass(frozen=True, slots=True)
class ConstantLatency(Latency):
    """The named clients, or all of them, are always equally late."""

    rounds: int = 10
    """How many rounds late."""
    clients: tuple[int, ...] | None = None
    """The slow clients' numbers; all clients when not set."""

    def __post_init__(self) -> None:
        _check_at_least("rounds", self.rounds, 0)
        if self.clients is not None:
            object.__setattr__(self, "clients", tuple(self.clients))  # TOML gives lists
            _check_distinct("clients", self.clients)

    def plan(self, hist: Indices, seed: int) -> FixedPlan:
        """Give `rounds` to the named clients and 0 to the others.

        Example:
            >>> plan = ConstantLatency(rounds=7, clients=(1,)).plan(np.ones((3, 2), int), seed=0)
            >>> [plan.rounds(client, job_round=0) for client in range(3)]
            [0, 7, 0]
        """
        every = range(len(hist))
        slow = tuple(every) if self.clients is None else tuple(sorted(self.clients))
        if slow and slow[-1] not in every:
            raise ConfigError(
                f"Latency 'constant' should name clients from 0 to {len(hist) - 1}. "
                f"Found {slow[-1]}. Correct its clients."
            )
        return FixedPlan(tuple(self.rounds if client in slow else 0 for client in every), slow)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLatency(Latency):
    """What all latencies drawn from a distribution share: who draws, how often, up to what."""

    per: str = "job"
    """'job': every job draws anew; 'client': a client draws once and keeps it."""
    share: float = 1.0
    """The share of clients that are slow, drawn by the seed; the others are never late."""
    cap: int | None = None
    """No latency is above this many rounds; no cap when not set."""

    def __post_init__(self) -> None:
        if self.per not in ("job", "client"):
            raise UnknownNameError("Setting 'per'", self.per, ("job", "client"))
        if not 0 <= self.share <= 1:
            found = f"Found {self.share}. Give the share of slow clients, such as 0.1."
            raise ConfigError(f"Setting 'share' should be from 0 to 1. {found}")
        _check_at_least("cap", self.cap or 0, 0)
        self.check()

    @abstractmethod
    def check(self) -> None:
        """Raise ConfigError where the distribution's own settings are wrong."""

    @abstractmethod
    def quantile(self, q: float) -> float:
        """Return what a share q of all latencies stay below, for 0 < q < 1."""

    def rounds_at(self, q: float) -> int:
        """Return the quantile in whole rounds, within the cap."""
        return round(min(self.quantile(q), _NEVER if self.cap is None else self.cap))

    def draw(self, rng: np.random.Generator) -> int:
        """Draw one latency: the quantile at a random q, which is never exactly 0."""
        return self.rounds_at(max(rng.random(), 2.0**-53))

    def plan(self, hist: Indices, seed: int) -> LatencyPlan:
        """Draw the slow clients and, with per = 'client', their latencies."""
        count = max(1, round(self.share * len(hist))) if self.share else 0
        chosen = numpy_generator(seed, "latency", "slow").choice(len(hist), count, replace=False)
        slow = tuple(sorted(int(client) for client in chosen))
        if self.per == "job":
            return JobPlan(self, slow, seed)
        latencies = [0] * len(hist)
        for client in slow:
            latencies[client] = self.draw(numpy_generator(seed, "latency", "client", client))
        return FixedPlan(tuple(latencies), slow)


@dataclass(frozen=True, slots=True)
class JobPlan:
    """Every job of a slow client draws its latency anew."""

    latency: DrawnLatency
    """What is drawn from."""
    slow: tuple[int, ...]
    """The clients that draw; the others are never late."""
    seed: int
    """The seed of all draws."""

    def rounds(self, client: int, job_round: int) -> int:
        """Return the latency of the client's job of that round."""
        if client not in self.slow:
            return 0
        # int(): a NumPy integer would name another random stream than a Python one.
        names = ("latency", "job", int(client), int(job_round))
        return self.latency.draw(numpy_generator(self.seed, *names))

    def typical(self, client: int) -> float:
        """Return the median of the client's latencies."""
        return float(self.latency.rounds_at(0.5)) if client in self.slow else 0.0


@dataclass(frozen=True, slots=True)
class UniformLatency(DrawnLatency):
    """Whole numbers of rounds, all equally likely."""

    low: int = 0
    """The shortest latency, in rounds."""
    high: int = 20
    """The longest latency, in rounds, itself included."""

    def check(self) -> None:
        """Raise ConfigError where low or high is wrong."""
        _check_at_least("low", self.low, 0)
        _check_at_least("high", self.high, self.low)

    def quantile(self, q: float) -> float:
        """Return the whole number from low to high at a share q of the way."""
        return self.low + math.floor(q * (self.high - self.low + 1))


@dataclass(frozen=True, slots=True)
class LognormalLatency(DrawnLatency):
    """median · exp(sigma · N(0, 1)), rounded: what measured device times often look like."""

    median: float = 10.0
    """Half of all latencies are below this many rounds."""
    sigma: float = 1.0
    """The spread of the logarithm; 0 makes all latencies the median."""

    def check(self) -> None:
        """Raise ConfigError where median or sigma is wrong."""
        _check_at_least("median", self.median, 0)
        _check_at_least("sigma", self.sigma, 0)

    def quantile(self, q: float) -> float:
        """Return median · exp(sigma · Φ⁻¹(q))."""
        return self.median * _exp(self.sigma * statistics.NormalDist().inv_cdf(q))


@dataclass(frozen=True, slots=True)
class ParetoLatency(DrawnLatency):
    """P(latency > x) = (scale / x)^shape, rounded: most are short, a few hardly end."""

    scale: float = 5.0
    """The shortest latency, in rounds."""
    shape: float = 1.5
    """The tail, at least 0.01: smaller is heavier; at 1 and below the mean is infinite."""

    def check(self) -> None:
        """Raise ConfigError where scale or shape is wrong."""
        _check_at_least("scale", self.scale, 0)
        _check_at_least("shape", self.shape, 0.01)

    def quantile(self, q: float) -> float:
        """Return scale · (1 − q)^(−1/shape)."""
        return self.scale * _exp(-math.log1p(-q) / self.shape)


@dataclass(frozen=True, slots=True)
class TraceLatency(Latency):
    """Latencies from a CSV file with the header `client,round,latency`.

    A job's latency is that of its client's last row at or before the job's round, and
    0 before the first. Clients without a row are never late. Rows may come in any order.
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
    """Latencies that step up and down at given rounds."""

    steps: dict[int, tuple[tuple[int, int], ...]]
    """For every client with a row: (from this round, latency), sorted."""

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
    """The clients that hold most of an affected class are the slow ones.

    This ties device to data heterogeneity: what slow clients know, few others know. A
    holder of several affected classes gets the longest of their latencies.
    """

    classes: tuple[int, ...] = (5,)
    """The affected classes."""
    clients: int = 10
    """How many clients are slow for each affected class: those that hold most of it."""
    rounds: int | tuple[int, ...] = 40
    """Their latency τ: one number, or one for each affected class."""
    others: int = 0
    """The latency of all other clients."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(self.classes))  # TOML gives lists
        if not isinstance(self.rounds, int):
            object.__setattr__(self, "rounds", tuple(self.rounds))
        _check_distinct("classes", self.classes)
        _check_at_least("clients", self.clients, 1)
        _check_at_least("others", self.others, 0)
        if isinstance(self.rounds, tuple) and len(self.rounds) != len(self.classes):
            raise ConfigError(
                f"Setting 'rounds' should be one number, or {len(self.classes)}: one for each "
                f"affected class. Found {len(self.rounds)}. Add or remove some."
            )
        for rounds in self._rounds_by_class():
            _check_at_least("rounds", rounds, 0)

    @property
    def affected(self) -> tuple[int, ...]:
        """The affected classes."""
        return self.classes

    def plan(self, hist: Indices, seed: int) -> FixedPlan:
        """Find the holders of every affected class; the seed plays no part.

        Example:
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
"""The latencies by the name that an experiment file gives as `kind`."""


def _exp(power: float) -> float:
    return math.exp(min(power, 700.0))  # e^700 is near the largest float, and beyond any run


def _check_at_least(name: str, value: float, least: float) -> None:
    if not least <= value < float("inf"):  # also refuses NaN
        raise ConfigError(
            f"Setting '{name}' should be finite and at least {least}. Found {value}. Correct it."
        )


def _check_distinct(name: str, values: tuple[int, ...]) -> None:
    if not values or len(set(values)) < len(values) or min(values) < 0:
        raise ConfigError(
            f"Setting '{name}' should list one or more different numbers, none below 0. "
            f"Found {list(values)}. Correct the list."
        )
