"""Latencies drawn from a distribution, once per client or for every job."""

import math
import statistics
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from unstale.errors import ConfigError, UnknownNameError
from unstale.seeding import numpy_generator
from unstale.sim.latency.plan import FixedPlan, Latency, LatencyPlan, check_at_least
from unstale.sim.partition import Indices

_NEVER = 10**9  # rounds: longer than any run; heavy tails could otherwise overflow an int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLatency(Latency):
    """Base class of latencies that are drawn from a distribution."""

    per: str = "job"
    """`job` draws a latency for every job (a client's work in one round), `client` once per
    client."""
    share: float = 1.0
    """The share of clients that are slow, drawn at random; the others are never late."""
    cap: int | None = None
    """Maximum latency in rounds; no limit if not given."""

    def __post_init__(self) -> None:
        if self.per not in ("job", "client"):
            raise UnknownNameError("Setting 'per'", self.per, ("job", "client"))
        if not 0 <= self.share <= 1:
            found = f"Found {self.share}. Give the share of slow clients, such as 0.1."
            raise ConfigError(f"Setting 'share' should be from 0 to 1. {found}")
        check_at_least("cap", self.cap or 0, 0)
        self.check()

    @abstractmethod
    def check(self) -> None:
        """Raise ConfigError if a setting of the distribution is wrong."""

    @abstractmethod
    def quantile(self, q: float) -> float:
        """Return the q-quantile of the distribution, for 0 < q < 1."""

    def rounds_at(self, q: float) -> int:
        """Return the q-quantile in whole rounds, at most `cap`."""
        return round(min(self.quantile(q), _NEVER if self.cap is None else self.cap))

    def draw(self, rng: np.random.Generator) -> int:
        """Draw one latency by inverse transform sampling."""
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
    """A plan in which every job of a slow client draws its own latency."""

    latency: DrawnLatency
    """The distribution."""
    slow: tuple[int, ...]
    """The slow clients; the others are never late."""
    seed: int
    """Seed of the draws."""

    def rounds(self, client: int, job_round: int) -> int:
        """Return the latency of the job that the client starts in a round."""
        if client not in self.slow:
            return 0
        # Python integers, as `derive` expects.
        names = ("latency", "job", int(client), int(job_round))
        return self.latency.draw(numpy_generator(self.seed, *names))

    def typical(self, client: int) -> float:
        """Return the median of the client's latencies."""
        return float(self.latency.rounds_at(0.5)) if client in self.slow else 0.0


@dataclass(frozen=True, slots=True)
class UniformLatency(DrawnLatency):
    """Uniform over the integers from `low` to `high`."""

    low: int = 0
    """The shortest latency, in rounds."""
    high: int = 20
    """The longest latency, in rounds (inclusive)."""

    def check(self) -> None:
        """Raise ConfigError if low or high is wrong."""
        check_at_least("low", self.low, 0)
        check_at_least("high", self.high, self.low)

    def quantile(self, q: float) -> float:
        """Return low + ⌊q · (high − low + 1)⌋."""
        return self.low + math.floor(q * (self.high - self.low + 1))


@dataclass(frozen=True, slots=True)
class LognormalLatency(DrawnLatency):
    """Log-normal: median · exp(sigma · N(0, 1)), rounded; typical of measured device times."""

    median: float = 10.0
    """Half of all latencies are below this many rounds."""
    sigma: float = 1.0
    """Standard deviation of the logarithm; 0 makes all latencies equal to the median."""

    def check(self) -> None:
        """Raise ConfigError if median or sigma is wrong."""
        check_at_least("median", self.median, 0)
        check_at_least("sigma", self.sigma, 0)

    def quantile(self, q: float) -> float:
        """Return median · exp(sigma · Φ⁻¹(q))."""
        return self.median * _exp(self.sigma * statistics.NormalDist().inv_cdf(q))


@dataclass(frozen=True, slots=True)
class ParetoLatency(DrawnLatency):
    """Pareto: P(latency > x) = (scale / x)^shape, rounded; heavy-tailed."""

    scale: float = 5.0
    """The shortest latency, in rounds."""
    shape: float = 1.5
    """Tail exponent, at least 0.01. A smaller one has a heavier tail; the mean is infinite up to
    1."""

    def check(self) -> None:
        """Raise ConfigError if scale or shape is wrong."""
        check_at_least("scale", self.scale, 0)
        check_at_least("shape", self.shape, 0.01)

    def quantile(self, q: float) -> float:
        """Return scale · (1 − q)^(−1/shape)."""
        return self.scale * _exp(-math.log1p(-q) / self.shape)


def _exp(power: float) -> float:
    return math.exp(min(power, 700.0))  # e^700 is near the largest float
