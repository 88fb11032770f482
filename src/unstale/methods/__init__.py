"""Methods: what is done to stale updates, how updates are combined, and both by name.

The registry is loaded at once; the classes, which need torch, when they are first used.
"""

from typing import TYPE_CHECKING

from unstale.lazy import lazy_names
from unstale.methods.aggregator_registry import AGGREGATORS, aggregator
from unstale.methods.registry import METHODS, Method, MethodSpec, as_method, method, register
from unstale.methods.server_optimizer_registry import SERVER_OPTIMIZERS

# Where each class lives. The imports below are for type checkers and editors;
# `tests/unit/test_exported.py` compares the two.
_HOMES = {
    "unstale.methods.aggregate": (
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
    ),
    "unstale.methods.base": ("Compensator", "Stateless", "fall_back", "per_update"),
    "unstale.methods.chaining": ("Chain", "chain"),
    "unstale.methods.comparators": ("DataFreeGenerator", "DreamedInputs", "SurrogateData"),
    "unstale.methods.conversion": (
        "Budget",
        "Calibration",
        "Convert",
        "ConvertAll",
        "InGroups",
        "OnlyUnique",
        "RecipeCheck",
        "StandIn",
        "SwitchBack",
        "Switching",
        "Uniqueness",
        "in_groups",
        "only_unique",
        "switch_back",
    ),
    "unstale.methods.drop": ("Drop",),
    "unstale.methods.first_order": ("FirstOrder",),
    "unstale.methods.identity": ("Identity",),
    "unstale.methods.memory": ("Memory",),
    "unstale.methods.prediction": ("PredictedMove",),
    "unstale.methods.server_optimizers": (
        "FedAdagrad",
        "FedAdam",
        "FedAvgM",
        "FedYogi",
        "Plain",
        "ServerOptimizer",
    ),
    "unstale.methods.weighting": (
        "ExponentialWeight",
        "HingeWeight",
        "PolynomialWeight",
        "ScaledWeight",
        "SigmoidWeight",
    ),
}

if TYPE_CHECKING:
    from unstale.methods.aggregate import (
        Aggregator,
        DirectionBound,
        FedAT,
        FedAvg,
        Krum,
        Median,
        MultiKrum,
        NormBound,
        Tiers,
        TrimmedMean,
    )
    from unstale.methods.base import Compensator, Stateless, fall_back, per_update
    from unstale.methods.chaining import Chain, chain
    from unstale.methods.comparators import DataFreeGenerator, DreamedInputs, SurrogateData
    from unstale.methods.conversion import (
        Budget,
        Calibration,
        Convert,
        ConvertAll,
        InGroups,
        OnlyUnique,
        RecipeCheck,
        StandIn,
        SwitchBack,
        Switching,
        Uniqueness,
        in_groups,
        only_unique,
        switch_back,
    )
    from unstale.methods.drop import Drop
    from unstale.methods.first_order import FirstOrder
    from unstale.methods.identity import Identity
    from unstale.methods.memory import Memory
    from unstale.methods.prediction import PredictedMove
    from unstale.methods.server_optimizers import (
        FedAdagrad,
        FedAdam,
        FedAvgM,
        FedYogi,
        Plain,
        ServerOptimizer,
    )
    from unstale.methods.weighting import (
        ExponentialWeight,
        HingeWeight,
        PolynomialWeight,
        ScaledWeight,
        SigmoidWeight,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

__all__ = [
    "AGGREGATORS",
    "METHODS",
    "SERVER_OPTIMIZERS",
    "Aggregator",
    "Budget",
    "Calibration",
    "Chain",
    "Compensator",
    "Convert",
    "ConvertAll",
    "DataFreeGenerator",
    "DirectionBound",
    "DreamedInputs",
    "Drop",
    "ExponentialWeight",
    "FedAT",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedAvgM",
    "FedYogi",
    "FirstOrder",
    "HingeWeight",
    "Identity",
    "InGroups",
    "Krum",
    "Median",
    "Memory",
    "Method",
    "MethodSpec",
    "MultiKrum",
    "NormBound",
    "OnlyUnique",
    "Plain",
    "PolynomialWeight",
    "PredictedMove",
    "RecipeCheck",
    "ScaledWeight",
    "ServerOptimizer",
    "SigmoidWeight",
    "StandIn",
    "Stateless",
    "SurrogateData",
    "SwitchBack",
    "Switching",
    "Tiers",
    "TrimmedMean",
    "Uniqueness",
    "aggregator",
    "as_method",
    "chain",
    "fall_back",
    "in_groups",
    "method",
    "only_unique",
    "per_update",
    "register",
    "switch_back",
]
