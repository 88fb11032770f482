"""Unstale: federated learning in which slow devices hold data that nobody else has."""

from unstale.aggregate import Aggregator, FedAvg, Tiers
from unstale.checks import Limits
from unstale.compensate import (
    Compensator,
    Drop,
    ExponentialWeight,
    FirstOrder,
    HingeWeight,
    Identity,
    PolynomialWeight,
    PredictedMove,
    SigmoidWeight,
    chain,
)
from unstale.errors import UnstaleError
from unstale.history import HistorySpec
from unstale.local import LocalSpec, local_update
from unstale.methods import Method, method
from unstale.params import Params, params_of
from unstale.server import Server
from unstale.step import Report, ServerState, step
from unstale.trainable import check_model
from unstale.updates import Note, Outcome, Receipt, ServerView, Update

__version__ = "0.1.0"

__all__ = [
    "Aggregator",
    "Compensator",
    "Drop",
    "ExponentialWeight",
    "FedAvg",
    "FirstOrder",
    "HingeWeight",
    "HistorySpec",
    "Identity",
    "Limits",
    "LocalSpec",
    "Method",
    "Note",
    "Outcome",
    "Params",
    "PolynomialWeight",
    "PredictedMove",
    "Receipt",
    "Report",
    "Server",
    "ServerState",
    "ServerView",
    "SigmoidWeight",
    "Tiers",
    "UnstaleError",
    "Update",
    "chain",
    "check_model",
    "local_update",
    "method",
    "params_of",
    "step",
]
