"""Latencies: how many rounds late the updates of each client arrive."""

from unstale.sim.latency.drawn import LognormalLatency, ParetoLatency, UniformLatency
from unstale.sim.latency.named import (
    KINDS,
    ConstantLatency,
    IntertwinedLatency,
    NoLatency,
    TraceLatency,
)
from unstale.sim.latency.plan import Latency, LatencyPlan

__all__ = [
    "KINDS",
    "ConstantLatency",
    "IntertwinedLatency",
    "Latency",
    "LatencyPlan",
    "LognormalLatency",
    "NoLatency",
    "ParetoLatency",
    "TraceLatency",
    "UniformLatency",
]
