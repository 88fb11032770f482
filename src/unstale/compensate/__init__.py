"""Compensators: what is done to a stale update before it is aggregated."""

from unstale.compensate.base import Compensator, Stateless, fall_back, per_update
from unstale.compensate.combine import Chain, chain
from unstale.compensate.conversion import ConvertStale
from unstale.compensate.drop import Drop
from unstale.compensate.first_order import FirstOrder
from unstale.compensate.identity import Identity
from unstale.compensate.inversion import Invert
from unstale.compensate.prediction import PredictedMove
from unstale.compensate.preparing import Preparation, Prepares
from unstale.compensate.switching import SwitchBack, switch_back
from unstale.compensate.uniqueness import OnlyUnique, only_unique
from unstale.compensate.weighting import (
    ExponentialWeight,
    HingeWeight,
    PolynomialWeight,
    SigmoidWeight,
)

__all__ = [
    "Chain",
    "Compensator",
    "ConvertStale",
    "Drop",
    "ExponentialWeight",
    "FirstOrder",
    "HingeWeight",
    "Identity",
    "Invert",
    "OnlyUnique",
    "PolynomialWeight",
    "PredictedMove",
    "Preparation",
    "Prepares",
    "SigmoidWeight",
    "Stateless",
    "SwitchBack",
    "chain",
    "fall_back",
    "only_unique",
    "per_update",
    "switch_back",
]
