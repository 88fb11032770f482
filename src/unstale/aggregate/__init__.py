"""Aggregators: how a round's updates become one change of the global weights."""

from unstale.aggregate.base import Aggregator
from unstale.aggregate.mean import FedAvg, mean_delta
from unstale.aggregate.tiers import Tiers

__all__ = ["Aggregator", "FedAvg", "Tiers", "mean_delta"]
