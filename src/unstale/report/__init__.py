"""The report of a run: one self-contained page and PNGs, made from the run folder alone."""

from unstale.report.read import read_run
from unstale.report.records import Run
from unstale.report.write import write_report

__all__ = ["Run", "read_run", "write_report"]
