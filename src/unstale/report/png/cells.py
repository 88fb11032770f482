"""Draws what is no line chart: cells by client, round or class, columns of fates, surrogates."""

import math

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from unstale.report.figures.classes import ClassAccuracy, ClientChart
from unstale.report.figures.conversions import FateChart
from unstale.report.figures.staleness import StalenessChart
from unstale.report.figures.surrogates import Gallery, kind_of, levels
from unstale.report.png.style import FAST, INK, MUTED, RULE, SLOW, axes_with, plain
from unstale.run_folder import SurrogateSamples

# More class names than this do not fit beside the cells.
MAX_NAMED = 30
MAX_PANELS = 6
_FATE_COLOURS = {
    "converted": FAST,
    "kept": "#b5c3d3",
    "switched": MUTED,
    "fallback": SLOW,
    "dropped": INK,
    "other": RULE,
}


def _ramp(colour: str) -> LinearSegmentedColormap:
    return LinearSegmentedColormap.from_list("ramp", ["#ffffff", colour])


def draw_clients(chart: ClientChart) -> Figure:
    """Draw what the clients of the first seed hold, below their latencies."""
    scenario = chart.scenarios[0]
    clients, classes = scenario.clients, scenario.classes
    size = (7.2, 1.6 + 0.2 * min(len(classes), MAX_NAMED))
    figure = Figure(figsize=size, layout="constrained")
    bars, cells = figure.subplots(2, 1, sharex=True, height_ratios=[1, 2.4])
    bars.set_title(f"{chart.title} (seed {scenario.seed})")
    bars.bar(
        range(len(clients)),
        [client.latency for client in clients],
        color=[SLOW if client.slow else FAST for client in clients],
    )
    bars.set_ylabel("latency\n(rounds)")
    deepest = math.sqrt(max((max(c.histogram) for c in clients), default=0) or 1)
    for slow, colour in ((True, SLOW), (False, FAST)):
        # NaN is see-through: each kind of client is laid over the other in its own colour.
        grid = [
            [math.sqrt(c.histogram[k]) if c.slow is slow else math.nan for c in clients]
            for k in range(len(classes))
        ]
        cells.imshow(
            grid, aspect="auto", cmap=_ramp(colour), vmin=0, vmax=deepest, interpolation="nearest"
        )
    cells.grid(visible=False)
    if len(classes) <= MAX_NAMED:
        cells.set_yticks(range(len(classes)), [plain(name) for name in classes])
        for position in scenario.affected:
            cells.get_yticklabels()[position].set(color=SLOW, fontweight="bold")
    cells.set_xticks([])
    cells.set_xlabel(f"{len(clients)} clients, the slowest first")
    cells.set_ylabel("class")
    return figure


def draw_staleness(chart: StalenessChart) -> Figure | None:
    """Draw the staleness of what arrived, for the grid that most methods share."""
    if not chart.grids:
        return None
    grid = chart.grids[0]
    columns = grid.columns
    figure, axes = axes_with(chart.title, "round", "staleness (versions)", size=(7.2, 3.4))
    edges_x = [columns[0].first - 0.5, *(column.last + 0.5 for column in columns)]
    edges_y = [-0.5, *(0.5 + k * grid.width for k in range(grid.num_rows))]
    density = [[math.sqrt(c.rows[k]) for c in columns] for k in range(grid.num_rows)]
    axes.pcolormesh(edges_x, edges_y, density, cmap=_ramp(FAST), rasterized=True)
    middle = [(column.first + column.last) / 2 for column in columns]
    axes.plot(middle, [column.mean for column in columns], color=INK, linewidth=1.2)
    axes.grid(visible=False)
    return figure


def draw_classes(chart: ClassAccuracy) -> Figure:
    """Draw accuracy by class as a table of methods by classes."""
    width = len(chart.names)
    size = (min(2.4 + 0.5 * width, 16), 1.1 + 0.3 * len(chart.rows))
    figure, axes = axes_with("Accuracy by class, last fifth of the rounds", "class", "", size=size)
    grid = [[math.nan if value is None else value for value in row] for row in chart.rows.values()]
    axes.imshow(grid, aspect="auto", cmap=_ramp(FAST), vmin=0, vmax=1.4)
    axes.grid(visible=False)
    axes.set_yticks(range(len(chart.rows)), [plain(label) for label in chart.rows])
    axes.set_xticks(range(width), [plain(name) for name in chart.names])
    for position in chart.affected:
        axes.get_xticklabels()[position].set(color=SLOW, fontweight="bold")
    if width <= 20:
        for y, values in enumerate(grid):
            for x, value in enumerate(values):
                if not math.isnan(value):
                    axes.text(x, y, f"{value:.2f}", ha="center", va="center", fontsize=7.5)
    return figure


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
            axes.bar(
                left, values, widths, below, align="edge", color=_FATE_COLOURS[key], linewidth=0
            )
            below = [a + b for a, b in zip(below, values, strict=True)]
        axes.set_title(plain(fates.label))
        axes.set_xlim(0, max(chart.last_round, 1))
        axes.set_ylabel("stale updates\na round")
    axes.set_xlabel("round")
    figure.legend(
        [Patch(color=_FATE_COLOURS[key]) for key, _ in chart.fates],
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
