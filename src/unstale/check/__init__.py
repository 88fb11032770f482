"""Checks of conversion on a given model, data and recipe: how far off it is, whether to use it."""

from unstale.check.conversion import check_conversion
from unstale.check.errors import Errors, errors_of
from unstale.check.figures import Figures
from unstale.check.result import ConversionCheck
from unstale.check.trial import Client, Measured, Trial, run_trial

__all__ = [
    "Client",
    "ConversionCheck",
    "Errors",
    "Figures",
    "Measured",
    "Trial",
    "check_conversion",
    "errors_of",
    "run_trial",
]
