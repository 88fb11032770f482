"""Server optimizers: how the global weights move by what was aggregated in a round."""

from unstale.methods.server_optimizers.adaptive import FedAdagrad, FedAdam, FedYogi
from unstale.methods.server_optimizers.base import Moved, ServerOptimizer
from unstale.methods.server_optimizers.momentum import FedAvgM
from unstale.methods.server_optimizers.plain import Plain

__all__ = [
    "FedAdagrad",
    "FedAdam",
    "FedAvgM",
    "FedYogi",
    "Moved",
    "Plain",
    "ServerOptimizer",
]
