"""Draws what became of stale updates, and samples of surrogates."""

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from unstale.report.conversions import SurrogateSamples
from unstale.report.figures.fates import FateChart
from unstale.report.figures.surrogates import Gallery, kind_of, levels
from unstale.report.png.style import FAST, INK, MUTED, RULE, SLOW, plain

_COLOURS = {
    "converted": FAST,
    "kept": "#b5c3d3",
    "switched": MUTED,
    "fallback": SLOW,
    "dropped": INK,
    "other": RULE,
}
MAX_PANELS = 6


def draw_fates(chart: FateChart) -> Figure:
    """Draw what became of stale updates, a panel for each of the first methods that convert."""
    found = chart.methods[:MAX_PANELS]
    figure = Figure(figsize=(7.2, 0.9 + 1.7 * len(found)), layout="constrained")
    for axes, fates in zip(figure.subplots(len(found), 1, squeeze=False)[:, 0], found, strict=True):
        step = fates.x[1] - fates.x[0] if len(fates.x) > 1 else 1
        # A column goes from the round after the one before it to its own.
        left = (fates.x[0] - step, *fates.x[:-1])
        widths = [end - begin for begin, end in zip(left, fates.x, strict=True)]
        below = [0.0] * len(fates.x)
        for key, values in fates.values.items():
            axes.bar(left, values, widths, below, align="edge", color=_COLOURS[key], linewidth=0)
            below = [a + b for a, b in zip(below, values, strict=True)]
        axes.set_title(plain(fates.label))
        axes.set_xlim(0, max(chart.last_round, 1))
        axes.set_ylabel("stale updates\na round")
    axes.set_xlabel("round")
    figure.legend(
        [Patch(color=_COLOURS[key]) for key, _ in chart.fates],
        [name for _, name in chart.fates],
        frameon=False,
        loc="outside upper right",
        ncols=len(chart.fates),
    )
    return figure


def draw_gallery(gallery: Gallery) -> Figure | None:
    """Draw samples of a method's surrogates, a row for each client; None if they are no picture."""
    surrogates = gallery.surrogates
    if not kind_of(surrogates[0].shape):
        return None
    columns = max(len(one.x) for one in surrogates)
    size = (max(4.0, 0.9 * columns), 0.5 + 1.05 * len(surrogates))
    figure = Figure(figsize=size, layout="constrained")
    title = f"Surrogates of {plain(gallery.label)}, seed {gallery.seed}"
    figure.suptitle(title, fontsize=10, fontweight="bold")
    grid = figure.subplots(len(surrogates), columns, squeeze=False)
    for row, one in zip(grid, surrogates, strict=True):
        row[0].set_ylabel(plain(one.client), fontsize=7)
        for i, axes in enumerate(row):
            axes.set(xticks=[], yticks=[])
            axes.grid(visible=False)
            if i < len(one.x):
                _add_sample(axes, one, i)
            else:
                axes.axis("off")
    return figure


def _add_sample(axes: Axes, surrogate: SurrogateSamples, sample: int) -> None:
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
