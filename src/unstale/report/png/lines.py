"""Draws line charts: the mean with a band, dotted where a method has a second line."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from unstale.report.figures.lines import LineChart
from unstale.report.palette import Style
from unstale.report.png.style import MUTED, axes_with, plain

# Width and height in inches.
SIZES = {"hero": (7.2, 3.8), "whole": (7.2, 3.8), "part": (7.2, 3.0), "small": (5.6, 3.0)}


def draw_lines(chart: LineChart, styles: Mapping[str, Style]) -> Figure:
    """Draw a line chart."""
    title = f"{chart.title} (dotted: {chart.variant})" if chart.variant else chart.title
    figure, axes = axes_with(title, chart.x.label, chart.y.label, SIZES[chart.size])
    if chart.target is not None:
        axes.axhline(chart.target, color=MUTED, linewidth=0.8, linestyle=":")
    _add_lines(axes, chart, styles)
    if chart.x.log:
        axes.set_xscale("log")
        axes.set_xlim(1, max(2, chart.x.high or 2))
        _plain_ticks(axes.xaxis)
    else:
        axes.set_xlim(left=0, right=max(chart.x.high or 1, 1))
    if chart.y.log:
        axes.set_yscale("log", nonpositive="mask")
        _plain_ticks(axes.yaxis)
    elif chart.y.low is not None and chart.y.high is not None:
        # A little room, so that a line along the edge is seen whole.
        room = 0.02 * (chart.y.high - chart.y.low)
        axes.set_ylim(chart.y.low - room, chart.y.high + room)
    else:
        axes.set_ylim(bottom=chart.y.low)
    return figure


def _add_lines(axes: Axes, chart: LineChart, styles: Mapping[str, Style]) -> None:
    handles: dict[str, Line2D] = {}
    for line in chart.lines:
        series, style = line.series, styles[line.method]
        dash = tuple(float(part) / 1.6 for part in style.dash.split())
        shape: object = (0, (1, 2)) if line.variant else (0, dash) if dash else "-"
        (drawn,) = axes.plot(
            series.x,
            series.mean,
            color=style.on_light,
            linestyle=shape,
            linewidth=1 if line.variant else 1.6,
            marker="o" if len(series.x) <= 12 else None,
            markersize=3.5,
        )
        if line.raw:
            axes.plot(series.x, line.raw, color=style.on_light, linewidth=0.7, alpha=0.25)
        axes.fill_between(
            series.x, series.low, series.high, color=style.on_light, alpha=0.13, linewidth=0
        )
        handles.setdefault(line.method, drawn)
    # A leading underscore would make matplotlib drop the entry.
    named = ["\u200b" + plain(label) for label in handles]
    axes.legend(
        list(handles.values()), named, frameon=False, loc="upper left", bbox_to_anchor=(1, 1)
    )


def _plain_ticks(axis: Axis) -> None:
    """Write plain numbers on a logarithmic axis: matplotlib's own need math text, which is off."""
    low, high = sorted(axis.get_view_interval())
    narrow = low > 0 and high / low < 1000
    axis.set_major_locator(LogLocator(10, (1.0, 2.0, 5.0) if narrow else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
