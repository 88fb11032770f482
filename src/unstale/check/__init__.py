"""Checks of conversion on a given model, data and recipe: how far off it is, whether to use it."""

from unstale.check.errors import Errors, errors_of
from unstale.check.trial import Client, Measured, Trial, run_trial

__all__ = ["Client", "Errors", "Measured", "Trial", "errors_of", "run_trial"]
