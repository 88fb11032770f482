"""Aggregators: how a round's updates become one change of the global weights."""

from unstale.methods.aggregate.base import Aggregator
from unstale.methods.aggregate.mean import FedAvg, mean_delta
from unstale.methods.aggregate.tiers import Tiers

__all__ = ["Aggregator", "FedAvg", "Tiers", "mean_delta"]
