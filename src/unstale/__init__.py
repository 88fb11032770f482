"""Unstale: federated learning in which slow devices hold data that nobody else has.

Public names are loaded when they are first used (PEP 562), so that `import unstale.cli`
and `unstale --help` do not pay for importing torch.
"""

from typing import TYPE_CHECKING

from unstale.lazy import lazy_names

__version__ = "0.1.0"

# Where each public name lives. The imports below are for type checkers and editors;
# `tests/unit/test_exported.py` compares the two.
_HOMES = {
    "unstale.check": ("ConversionCheck", "check_conversion"),
    "unstale.errors": ("UnstaleError",),
    "unstale.executors": ("Background", "Executor", "Inline", "OnRay", "Processes"),
    "unstale.inversion": ("Conversion", "InputSpec", "Inversion", "Surrogate", "convert"),
    "unstale.methods": (
        "Aggregator",
        "Budget",
        "Calibration",
        "Compensator",
        "Convert",
        "Drop",
        "ExponentialWeight",
        "FedAT",
        "FedAvg",
        "FirstOrder",
        "HingeWeight",
        "Identity",
        "Memory",
        "Method",
        "PolynomialWeight",
        "PredictedMove",
        "RecipeCheck",
        "ScaledWeight",
        "SigmoidWeight",
        "StandIn",
        "Switching",
        "Tiers",
        "Uniqueness",
        "chain",
        "method",
        "only_unique",
        "switch_back",
    ),
    "unstale.training.fixing": ("ModelFix", "fix_model", "model_fixes"),
    "unstale.params": ("Params", "params_of"),
    "unstale.privacy": ("Protection", "Storage", "protect", "spent"),
    "unstale.server": (
        "HistorySpec",
        "Limits",
        "Report",
        "Server",
        "ServerSettings",
        "ServerState",
        "step",
    ),
    "unstale.training": ("LocalSpec", "check_model", "local_update"),
    "unstale.updates": ("Note", "Outcome", "Receipt", "ServerView", "Update"),
}

if TYPE_CHECKING:
    from unstale.check import ConversionCheck, check_conversion
    from unstale.errors import UnstaleError
    from unstale.executors import Background, Executor, Inline, OnRay, Processes
    from unstale.inversion import Conversion, InputSpec, Inversion, Surrogate, convert
    from unstale.methods import (
        Aggregator,
        Budget,
        Calibration,
        Compensator,
        Convert,
        Drop,
        ExponentialWeight,
        FedAT,
        FedAvg,
        FirstOrder,
        HingeWeight,
        Identity,
        Memory,
        Method,
        PolynomialWeight,
        PredictedMove,
        RecipeCheck,
        ScaledWeight,
        SigmoidWeight,
        StandIn,
        Switching,
        Tiers,
        Uniqueness,
        chain,
        method,
        only_unique,
        switch_back,
    )
    from unstale.params import Params, params_of
    from unstale.privacy import Protection, Storage, protect, spent
    from unstale.server import (
        HistorySpec,
        Limits,
        Report,
        Server,
        ServerSettings,
        ServerState,
        step,
    )
    from unstale.training import LocalSpec, check_model, local_update
    from unstale.training.fixing import ModelFix, fix_model, model_fixes
    from unstale.updates import Note, Outcome, Receipt, ServerView, Update
else:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

__all__ = [
    "Aggregator",
    "Background",
    "Budget",
    "Calibration",
    "Compensator",
    "Conversion",
    "ConversionCheck",
    "Convert",
    "Drop",
    "Executor",
    "ExponentialWeight",
    "FedAT",
    "FedAvg",
    "FirstOrder",
    "HingeWeight",
    "HistorySpec",
    "Identity",
    "Inline",
    "InputSpec",
    "Inversion",
    "Limits",
    "LocalSpec",
    "Memory",
    "Method",
    "ModelFix",
    "Note",
    "OnRay",
    "Outcome",
    "Params",
    "PolynomialWeight",
    "PredictedMove",
    "Processes",
    "Protection",
    "Receipt",
    "RecipeCheck",
    "Report",
    "ScaledWeight",
    "Server",
    "ServerSettings",
    "ServerState",
    "ServerView",
    "SigmoidWeight",
    "StandIn",
    "Storage",
    "Surrogate",
    "Switching",
    "Tiers",
    "Uniqueness",
    "UnstaleError",
    "Update",
    "chain",
    "check_conversion",
    "check_model",
    "convert",
    "fix_model",
    "local_update",
    "method",
    "model_fixes",
    "only_unique",
    "params_of",
    "protect",
    "spent",
    "step",
    "switch_back",
]
