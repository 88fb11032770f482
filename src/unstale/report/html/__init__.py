"""The figures and tables of a report as one self-contained HTML page."""

from unstale.report.html.compare_page import build_comparison
from unstale.report.html.page import build_page

__all__ = ["build_comparison", "build_page"]
