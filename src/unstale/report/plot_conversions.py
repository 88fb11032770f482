"""PNGs of conversions: their fates, their fit, who switched back, and surrogates."""

import math
from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from unstale.report.context import Context
from unstale.report.conversions import SurrogateSamples
from unstale.report.fates import FATES, converting, fates_of
from unstale.report.picture import kind_of, levels
from unstale.report.plot_lines import lines_on, logarithmic, plain_logarithm
from unstale.report.plot_style import FAST, INK, MUTED, RULE, SLOW, axes_with, plain
from unstale.report.records import Round
from unstale.report.sections.fit import curve_lines
from unstale.report.sections.surrogates import shown
from unstale.report.sections.switching import late_lines
from unstale.report.series import over_rounds
from unstale.report.switching import shares

_COLOURS = {
    "converted": FAST,
    "kept": "#b5c3d3",
    "switched": MUTED,
    "fallback": SLOW,
    "dropped": INK,
    "other": RULE,
}
MAX_PANELS = 6


def draw_fates(context: Context) -> Figure | None:
    """Draw what became of stale updates, a panel for each method that converts."""
    run = context.run
    found = [fates for m in converting(run) if (fates := fates_of(run, m.label)).values]
    found = found[:MAX_PANELS]
    if not found:
        return None
    figure = Figure(figsize=(7.2, 0.9 + 1.7 * len(found)), layout="constrained")
    for axes, fates in zip(figure.subplots(len(found), 1, squeeze=False)[:, 0], found, strict=True):
        step = fates.x[1] - fates.x[0] if len(fates.x) > 1 else 1
        widths = [end - begin for begin, end in zip((fates.x[0] - step, *fates.x), fates.x)]  # noqa: B905
        below = [0.0] * len(fates.x)
        for key, values in fates.values.items():
            left = [end - width for end, width in zip(fates.x, widths, strict=True)]
            axes.bar(left, values, widths, below, align="edge", color=_COLOURS[key], linewidth=0)
            below = [a + b for a, b in zip(below, values, strict=True)]
        axes.set_title(plain(fates.label))
        axes.set_xlim(0, max(run.last_round, 1))
        axes.set_ylabel("stale updates\na round")
    axes.set_xlabel("round")
    keys = [(key, name) for key, name, _ in FATES if any(key in f.values for f in found)]
    figure.legend(
        [Patch(color=_COLOURS[key]) for key, _ in keys],
        [name for _, name in keys],
        frameon=False,
        loc="outside upper right",
        ncols=len(keys),
    )
    return figure


def draw_curves(context: Context) -> Figure | None:
    """Draw the loss by iteration, of first conversions and of warm ones."""
    lines = curve_lines(context)
    if not lines:
        return None
    figure, axes = axes_with(
        "Loss while fitting (dotted: warm start)", "iteration", "loss", size=(5.6, 3.0)
    )
    lines_on(axes, context, lines)
    axes.set_xscale("log")
    axes.set_xlim(1, max(2, *(line.x[-1] for _, line, _ in lines)))
    plain_logarithm(axes.xaxis)
    logarithmic(axes, lines)
    return figure


def draw_fit(
    title: str, what: str, pick: Callable[[Round], float | None], log: bool
) -> Callable[[Context], Figure | None]:
    """Return what draws a figure of conversions over rounds."""

    def draw(context: Context) -> Figure | None:
        run = context.run
        lines = [
            (m.label, line, False)
            for m in converting(run)
            if (line := over_rounds(run.rounds.get(m.label, {}), pick))
        ]
        if not lines:
            return None
        figure, axes = axes_with(title, "round", what, size=(5.6, 3.0))
        lines_on(axes, context, lines)
        if log:
            logarithmic(axes, lines)
        else:
            axes.set_ylim(bottom=0)
        return figure

    return draw


def draw_gamma(context: Context) -> Figure | None:
    """Draw the estimate's share of each client that switched back."""
    lines = [(share.label, share.line, False) for share in shares(context.run)]
    if not lines:
        return None
    figure, axes = axes_with("Share of the estimate by client", "round", "γ", size=(7.2, 3.0))
    lines_on(axes, context, lines)
    axes.set_ylim(-0.02, 1.02)
    return figure


def draw_late_truth(context: Context) -> Figure | None:
    """Draw the errors that the server found out late."""
    lines = late_lines(context)
    if not lines:
        return None
    title = "What the server found out late (dotted: stale update)"
    figure, axes = axes_with(title, "round", "error", size=(7.2, 3.0))
    lines_on(axes, context, lines)
    logarithmic(axes, lines)
    return figure


def draw_surrogates(context: Context) -> Figure | None:
    """Draw samples of the first method's surrogates, a row for each client."""
    found = [entry for entry in shown(context.run) if kind_of(entry[2][0].shape)]
    if not found:
        return None
    label, seed, surrogates = found[0]
    columns = max(len(one.x) for one in surrogates)
    size = (max(4.0, 0.9 * columns), 0.5 + 1.05 * len(surrogates))
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(f"Surrogates of {plain(label)}, seed {seed}", fontsize=10, fontweight="bold")
    grid = figure.subplots(len(surrogates), columns, squeeze=False)
    for row, one in zip(grid, surrogates, strict=True):
        row[0].set_ylabel(plain(one.client), fontsize=7)
        for i, axes in enumerate(row):
            axes.set(xticks=[], yticks=[])
            axes.grid(visible=False)
            if i < len(one.x):
                _sample(axes, one, i)
            else:
                axes.axis("off")
    return figure


def _sample(axes: Axes, surrogate: SurrogateSamples, sample: int) -> None:
    values = levels(surrogate, sample)
    if kind_of(surrogate.shape) == "image":
        channels, height, width = surrogate.shape
        plane = height * width
        image = [
            [[values[c * plane + y * width + x] for c in range(channels)] for x in range(width)]
            for y in range(height)
        ]
        grey = [[pixel[0] for pixel in row] for row in image]
        axes.imshow(grey if channels == 1 else image, cmap="gray", vmin=0, vmax=1)
    else:
        steps = surrogate.shape[-1]
        for start in range(0, len(values), steps):
            axes.plot(values[start : start + steps], color=FAST, linewidth=0.6)
    label = surrogate.labels[sample]
    if label and not math.isnan(max(label)):
        axes.set_title(f"{label.index(max(label))}: {max(label):.0%}", fontsize=6.5, loc="center")
