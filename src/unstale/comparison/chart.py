"""The chart of a comparison: accuracy by round, as on the report page."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from unstale.errors import RunError
from unstale.report import read_run
from unstale.report.figures.lines import accuracy_chart
from unstale.report.palette import assign_styles
from unstale.report.png.lines import draw_lines
from unstale.report.png.style import SETTINGS


def draw_accuracy(folder: Path) -> Figure:
    """Return the accuracy of every method by round, on affected classes where there are some.

    Raises:
        RunError: If the folder holds no run, or no round was evaluated yet.
    """
    run = read_run(folder)
    chart = accuracy_chart(run)
    if chart is None:
        raise RunError(
            f"A plot should have rounds to show. None of {folder} was evaluated yet. Run it first."
        )
    with mpl.rc_context(SETTINGS):
        figure = draw_lines(chart, assign_styles(run.methods))
    FigureCanvasAgg(figure)
    return figure
