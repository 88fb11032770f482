"""The charts of the page as PNGs, for papers, slides and readers without scripts.

Figures are made without pyplot: no display is needed and no figure stays open. Math
text is off, since a `$` in a foreign label is only a dollar.
"""

import io
import warnings
from collections.abc import Callable

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from unstale.report.context import Context
from unstale.report.plot_conversions import (
    draw_curves,
    draw_fates,
    draw_fit,
    draw_gamma,
    draw_late_truth,
    draw_surrogates,
)
from unstale.report.plot_heat import draw_class_accuracy, draw_clients, draw_staleness
from unstale.report.plot_lines import (
    draw_accuracy,
    draw_affected_accuracy,
    draw_counter,
    draw_seconds,
    draw_update_error,
)
from unstale.report.plot_style import SETTINGS
from unstale.report.sections.fit import OVER_ROUNDS
from unstale.report.sections.handling import COUNTERS

# By file name; each returns None where the run has nothing for it.
PLOTS: dict[str, Callable[[Context], Figure | None]] = {
    "affected_accuracy": draw_affected_accuracy,
    "accuracy": draw_accuracy,
    "seconds": draw_seconds,
    "clients": draw_clients,
    "staleness": draw_staleness,
    "class_accuracy": draw_class_accuracy,
    **{key: draw_counter(title, count) for key, title, count in COUNTERS},
    "conversions": draw_fates,
    "fit_curves": draw_curves,
    **{key: draw_fit(title, what, pick, log) for key, title, what, pick, log in OVER_ROUNDS},
    "update_error": draw_update_error,
    "gamma": draw_gamma,
    "late_truth": draw_late_truth,
    "surrogates": draw_surrogates,
}


def draw_plots(context: Context) -> dict[str, bytes]:
    """Draw every chart the run has data for; returns PNG bytes by name."""
    drawn = {}
    # A label may hold characters the font lacks: a box in the PNG, no reason to warn.
    with mpl.rc_context(SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        for name, draw in PLOTS.items():
            figure = draw(context)
            if figure is None:
                continue
            buffer = io.BytesIO()
            FigureCanvasAgg(figure)
            figure.savefig(buffer, format="png", dpi=120)
            drawn[name] = buffer.getvalue()
    return drawn
