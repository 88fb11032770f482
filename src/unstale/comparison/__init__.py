"""Experiments in one call from Python: `simulate` in, a `Comparison` out."""

from unstale.comparison.result import Comparison, Plot
from unstale.comparison.run import simulate

__all__ = ["Comparison", "Plot", "simulate"]
