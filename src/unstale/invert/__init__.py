"""Gradient inversion: which small data set explains what a client's training changed.

Knows tensors and local training, nothing of federated learning.
"""

from unstale.invert.conversion import Conversion, Request
from unstale.invert.convert import convert, convert_many
from unstale.invert.settings import Invert, preset
from unstale.invert.surrogate import InputSpec, Surrogate

__all__ = [
    "Conversion",
    "InputSpec",
    "Invert",
    "Request",
    "Surrogate",
    "convert",
    "convert_many",
    "preset",
]
