"""Gradient inversion: which small data set explains what a client's training changed.

Knows tensors and local training, nothing of federated learning.
"""

from unstale.inversion.convert import (
    SurrogateTraining,
    convert,
    convert_many,
    estimate_many,
    estimate_with,
)
from unstale.inversion.embedded import embedded_inputs
from unstale.inversion.fit import fit_many
from unstale.inversion.request import Conversion, Fit, Request
from unstale.inversion.settings import Inversion, preset
from unstale.inversion.surrogate import InputSpec, Surrogate

__all__ = [
    "Conversion",
    "Fit",
    "InputSpec",
    "Inversion",
    "Request",
    "Surrogate",
    "SurrogateTraining",
    "convert",
    "convert_many",
    "embedded_inputs",
    "estimate_many",
    "estimate_with",
    "fit_many",
    "preset",
]
