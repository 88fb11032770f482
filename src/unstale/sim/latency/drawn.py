"""Latencies that are drawn from a distribution, once per client or anew for every job."""

import math
import statistics
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from unstale.errors import ConfigError, UnknownNameError
from unstale.seeding import numpy_generator
from unstale.sim.latency.plan import FixedPlan, Latency, LatencyPlan, check_at_least
from unstale.sim.partition import Indices

_NEVER = 10**9  # rounds: later than any run ends; heavy tails would else overflow an int


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
        check_at_least("cap", self.cap or 0, 0)
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
        check_at_least("low", self.low, 0)
        check_at_least("high", self.high, self.low)

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
        check_at_least("median", self.median, 0)
        check_at_least("sigma", self.sigma, 0)

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
        check_at_least("scale", self.scale, 0)
        check_at_least("shape", self.shape, 0.01)

    def quantile(self, q: float) -> float:
        """Return scale · (1 − q)^(−1/shape)."""
        return self.scale * _exp(-math.log1p(-q) / self.shape)


def _exp(power: float) -> float:
    return math.exp(min(power, 700.0))  # e^700 is near the largest float, and beyond any run
