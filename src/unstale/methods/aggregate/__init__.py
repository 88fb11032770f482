"""Aggregators: how the updates of a round are combined into one change of the weights."""

from unstale.methods.aggregate.direction_bound import DirectionBound
from unstale.methods.aggregate.fedat import FedAT
from unstale.methods.aggregate.krum import Krum, MultiKrum
from unstale.methods.aggregate.mean import FedAvg, mean_delta
from unstale.methods.aggregate.median import Median
from unstale.methods.aggregate.norm_bound import NormBound
from unstale.methods.aggregate.tiers import Tiers
from unstale.methods.aggregate.trimmed_mean import TrimmedMean
from unstale.methods.base import Aggregator

__all__ = [
    "Aggregator",
    "DirectionBound",
    "FedAT",
    "FedAvg",
    "Krum",
    "Median",
    "MultiKrum",
    "NormBound",
    "Tiers",
    "TrimmedMean",
    "mean_delta",
]
