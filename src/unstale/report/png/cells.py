"""Draws what is made of cells: what clients hold, staleness over time, accuracy by class."""

import math

from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from unstale.report.figures.classes import ClassAccuracy, ClientChart
from unstale.report.figures.staleness import StalenessChart
from unstale.report.png.style import FAST, INK, SLOW, axes_with, plain

# More class names than this do not fit beside the cells.
MAX_NAMED = 30


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
