"""PNGs of lines over rounds."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from unstale.report.context import Context
from unstale.report.plot_style import MUTED, axes_with, plain
from unstale.report.records import Round
from unstale.report.sections.effect import in_all
from unstale.report.sections.nodes import seconds_lines
from unstale.report.sections.oracle import AFTER, BEFORE, measured
from unstale.report.series import Series, over_rounds, totals


def lines_on(axes: Axes, context: Context, lines: Sequence[tuple[str, Series, bool]]) -> None:
    """Draw (method label, series, whether dotted) by round, with bands and a legend beside them."""
    handles: dict[str, Line2D] = {}
    for label, series, dotted in lines:
        style = context.styles[label]
        dash = tuple(float(part) / 1.6 for part in style.dash.split())
        shape: object = (0, (1, 2)) if dotted else (0, dash) if dash else "-"
        (line,) = axes.plot(
            series.x,
            series.mean,
            color=style.on_light,
            linestyle=shape,
            linewidth=1 if dotted else 1.6,
            marker="o" if len(series.x) < 3 else None,
        )
        axes.fill_between(
            series.x, series.low, series.high, color=style.on_light, alpha=0.13, linewidth=0
        )
        handles.setdefault(label, line)
    axes.set_xlim(left=0, right=max(context.run.last_round, 1))
    # A leading underscore would make matplotlib drop the entry.
    named = ["\u200b" + plain(label) for label in handles]
    axes.legend(
        list(handles.values()), named, frameon=False, loc="upper left", bbox_to_anchor=(1, 1)
    )


def draw_affected_accuracy(context: Context) -> Figure | None:
    """Draw affected-class accuracy by round."""
    run = context.run
    lines = [
        (m.label, line, False)
        for m in run.methods
        if (line := over_rounds(run.rounds.get(m.label, {}), lambda r: r.affected_accuracy))
    ]
    if not lines:
        return None
    figure, axes = axes_with(
        "Affected-class accuracy by round", "round", "accuracy in the affected class"
    )
    if run.target is not None:
        axes.axhline(run.target, color=MUTED, linewidth=0.8, linestyle=":")
    lines_on(axes, context, lines)
    axes.set_ylim(-0.02, 1.02)
    return figure


def draw_accuracy(context: Context) -> Figure | None:
    """Draw accuracy by round, where nobody says which classes are affected."""
    run = context.run
    lines = [
        (m.label, line, False)
        for m in run.methods
        if (line := over_rounds(run.rounds.get(m.label, {}), in_all))
    ]
    if run.knows_affected or not lines:
        return None
    figure, axes = axes_with("Accuracy by round", "round", "accuracy in all classes")
    lines_on(axes, context, lines)
    axes.set_ylim(-0.02, 1.02)
    return figure


def draw_seconds(context: Context) -> Figure | None:
    """Draw what each round took, where clients are real."""
    lines = [(label, line, False) for label, line in seconds_lines(context)]
    if not lines:
        return None
    figure, axes = axes_with("Seconds a round", "round", "seconds")
    lines_on(axes, context, lines)
    axes.set_ylim(bottom=0)
    return figure


def draw_update_error(context: Context) -> Figure | None:
    """Draw how far updates are from the true fresh ones, where the run measured it."""
    run = context.run
    lines = []
    for method in run.methods:
        by_seed = run.rounds.get(method.label, {})
        for key in (AFTER, BEFORE):
            if line := over_rounds(by_seed, measured(key)):
                lines.append((method.label, line, key == BEFORE))
    if not lines:
        return None
    figure, axes = axes_with(
        "Error of stale updates (dotted: as they arrived)", "round", "cosine distance"
    )
    lines_on(axes, context, lines)
    logarithmic(axes, lines)
    return figure


def logarithmic(axes: Axes, lines: Sequence[tuple[str, Series, bool]]) -> None:
    """Make the upward axis logarithmic, where the lines have anything above 0 to show."""
    if any(value > 0 for _, line, _ in lines for value in line.mean):
        axes.set_yscale("log", nonpositive="mask")
        plain_logarithm(axes.yaxis)


def plain_logarithm(axis: Axis) -> None:
    """Write plain numbers on a logarithmic axis: matplotlib's own need math text, which is off."""
    low, high = sorted(axis.get_view_interval())
    narrow = low > 0 and high / low < 1000
    axis.set_major_locator(LogLocator(10, (1.0, 2.0, 5.0) if narrow else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def draw_counter(title: str, count: Callable[[Round], int]) -> Callable[[Context], Figure | None]:
    """Return what draws the running total of `count`."""

    def draw(context: Context) -> Figure | None:
        run = context.run
        lines = [
            (m.label, line, False)
            for m in run.methods
            if (line := totals(run.rounds.get(m.label, {}), count))
        ]
        if not lines:
            return None
        figure, axes = axes_with(
            title, "round", "since the start, mean over seeds", size=(5.6, 3.0)
        )
        lines_on(axes, context, lines)
        axes.set_ylim(bottom=0)
        return figure

    return draw
