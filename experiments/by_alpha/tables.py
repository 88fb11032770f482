"""Figures of pages that quote Table 10.

<!-- from: ../experiments/by_alpha/tables.py time mnist_alpha_0.01 unweighted -->
"""

from pathlib import Path
from statistics import fmean

from unstale.reproduce.measures import MEASURES
from unstale.run_folder import RunFolder

RESULTS = Path(__file__).parents[1] / "main_table" / "results" / "cpu"


def time(run: str, method: str) -> float:
    """Return a method's rounds until the target is held, in percent of those of `convert`."""
    return fmean(MEASURES["time"].of(RunFolder(RESULTS / run))[method])
