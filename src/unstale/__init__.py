"""Unstale: federated learning in which slow devices hold data that nobody else has."""

from unstale.aggregate import Aggregator, FedAvg, Tiers
from unstale.background import Background
from unstale.checks import Limits
from unstale.compensate import (
    Compensator,
    Drop,
    ExponentialWeight,
    FirstOrder,
    HingeWeight,
    Identity,
    Invert,
    PolynomialWeight,
    PredictedMove,
    SigmoidWeight,
    chain,
    only_unique,
    switch_back,
)
from unstale.errors import UnstaleError
from unstale.executors import Executor, Inline, OnRay, Processes
from unstale.history import HistorySpec
from unstale.invert import Conversion, InputSpec, Surrogate, convert
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
    "Background",
    "Compensator",
    "Conversion",
    "Drop",
    "Executor",
    "ExponentialWeight",
    "FedAvg",
    "FirstOrder",
    "HingeWeight",
    "HistorySpec",
    "Identity",
    "Inline",
    "InputSpec",
    "Invert",
    "Limits",
    "LocalSpec",
    "Method",
    "Note",
    "OnRay",
    "Outcome",
    "Params",
    "PolynomialWeight",
    "PredictedMove",
    "Processes",
    "Receipt",
    "Report",
    "Server",
    "ServerState",
    "ServerView",
    "SigmoidWeight",
    "Surrogate",
    "Tiers",
    "UnstaleError",
    "Update",
    "chain",
    "check_model",
    "convert",
    "local_update",
    "method",
    "only_unique",
    "params_of",
    "step",
    "switch_back",
]
