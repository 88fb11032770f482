"""Aggregators: how the updates of a round are combined into one change of the weights."""

from unstale.methods.aggregate.fedat import FedAT
from unstale.methods.aggregate.mean import FedAvg, mean_delta
from unstale.methods.aggregate.tiers import Tiers
from unstale.methods.base import Aggregator

__all__ = ["Aggregator", "FedAT", "FedAvg", "Tiers", "mean_delta"]
