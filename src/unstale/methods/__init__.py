"""Methods: what is done to stale updates, how updates are combined, and both by name."""

from unstale.methods.aggregate import Aggregator, FedAvg, Tiers
from unstale.methods.base import Compensator, Stateless, fall_back, per_update
from unstale.methods.chain import Chain, chain
from unstale.methods.conversion import (
    Budget,
    Convert,
    ConvertAll,
    OnlyUnique,
    SwitchBack,
    Switching,
    Uniqueness,
    only_unique,
    switch_back,
)
from unstale.methods.drop import Drop
from unstale.methods.first_order import FirstOrder
from unstale.methods.identity import Identity
from unstale.methods.prediction import PredictedMove
from unstale.methods.registry import METHODS, Method, MethodSpec, as_method, method, register
from unstale.methods.weighting import (
    ExponentialWeight,
    HingeWeight,
    PolynomialWeight,
    SigmoidWeight,
)

__all__ = [
    "METHODS",
    "Aggregator",
    "Budget",
    "Chain",
    "Compensator",
    "Convert",
    "ConvertAll",
    "Drop",
    "ExponentialWeight",
    "FedAvg",
    "FirstOrder",
    "HingeWeight",
    "Identity",
    "Method",
    "MethodSpec",
    "OnlyUnique",
    "PolynomialWeight",
    "PredictedMove",
    "SigmoidWeight",
    "Stateless",
    "SwitchBack",
    "Switching",
    "Tiers",
    "Uniqueness",
    "as_method",
    "chain",
    "fall_back",
    "method",
    "only_unique",
    "per_update",
    "register",
    "switch_back",
]
