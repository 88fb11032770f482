"""The report of a run, or of several: one self-contained page and PNGs, from run folders alone."""

from unstale.report.read import read_run
from unstale.report.records import Run
from unstale.report.write import write_comparison, write_report

__all__ = ["Run", "read_run", "write_comparison", "write_report"]
