"""The figures of a report as PNGs, drawn with matplotlib."""

from unstale.report.png.plots import draw_plots

__all__ = ["draw_plots"]
