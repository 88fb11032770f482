"""The figures of the page as PNGs, for papers, slides and readers without scripts.

Figures are made without pyplot: no display is needed and no figure stays open. Math
text is off, since a `$` in a foreign label is only a dollar.
"""

import io
import warnings

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from unstale.report.context import Context
from unstale.report.context import Figure as Model
from unstale.report.figures.classes import ClassAccuracy, ClientChart
from unstale.report.figures.conversions import FateChart
from unstale.report.figures.lines import LineChart
from unstale.report.figures.staleness import StalenessChart
from unstale.report.png.cells import (
    draw_classes,
    draw_clients,
    draw_fates,
    draw_gallery,
    draw_staleness,
)
from unstale.report.png.lines import draw_lines
from unstale.report.png.style import SETTINGS


def draw_plots(context: Context) -> dict[str, bytes]:
    """Draw every figure the run has data for; returns PNG bytes by the figure's key."""
    drawn: dict[str, bytes] = {}
    # A label may hold characters the font lacks: a box in the PNG, no reason to warn.
    with mpl.rc_context(SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        for model in context.figures.all():
            # Of several methods' surrogates the first that can be drawn are enough.
            if model.key in drawn or (figure := _draw(model, context)) is None:
                continue
            buffer = io.BytesIO()
            FigureCanvasAgg(figure)
            figure.savefig(buffer, format="png", dpi=120)
            drawn[model.key] = buffer.getvalue()
    return drawn


def _draw(model: Model, context: Context) -> Figure | None:
    if isinstance(model, LineChart):
        return draw_lines(model, context.styles)
    if isinstance(model, ClientChart):
        return draw_clients(model)
    if isinstance(model, StalenessChart):
        return draw_staleness(model)
    if isinstance(model, ClassAccuracy):
        return draw_classes(model)
    if isinstance(model, FateChart):
        return draw_fates(model)
    return draw_gallery(model)
