"""Gradient inversion: which small data set explains what a client's training changed.

Knows tensors and local training, nothing of federated learning.
"""

from unstale.invert.conversion import Conversion, Fit, Request
from unstale.invert.convert import convert, convert_many
from unstale.invert.estimate import estimate_many
from unstale.invert.fit import fit_many
from unstale.invert.settings import Invert, preset
from unstale.invert.surrogate import InputSpec, Surrogate

__all__ = [
    "Conversion",
    "Fit",
    "InputSpec",
    "Invert",
    "Request",
    "Surrogate",
    "convert",
    "convert_many",
    "estimate_many",
    "fit_many",
    "preset",
]
