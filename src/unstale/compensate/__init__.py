"""Compensators: what is done to a stale update before it is aggregated."""

from unstale.compensate.base import Compensator, Stateless, fall_back, per_update
from unstale.compensate.combine import Chain, chain
from unstale.compensate.drop import Drop
from unstale.compensate.first_order import FirstOrder
from unstale.compensate.identity import Identity
from unstale.compensate.prediction import PredictedMove
from unstale.compensate.weighting import (
    ExponentialWeight,
    HingeWeight,
    PolynomialWeight,
    SigmoidWeight,
)

__all__ = [
    "Chain",
    "Compensator",
    "Drop",
    "ExponentialWeight",
    "FirstOrder",
    "HingeWeight",
    "Identity",
    "PolynomialWeight",
    "PredictedMove",
    "SigmoidWeight",
    "Stateless",
    "chain",
    "fall_back",
    "per_update",
]
