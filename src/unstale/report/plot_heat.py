"""PNGs made of cells: what clients hold, staleness over time, accuracy by class."""

import math

from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from unstale.report.arrivals import arrival_grids
from unstale.report.context import Context
from unstale.report.plot_style import FAST, INK, SLOW, axes_with, plain
from unstale.report.sections.classes import class_accuracy, class_names
from unstale.report.sections.clients import slowest_first


def _ramp(colour: str) -> LinearSegmentedColormap:
    return LinearSegmentedColormap.from_list("ramp", ["#ffffff", colour])


def draw_clients(context: Context) -> Figure | None:
    """Draw what the clients of the first seed hold, below their latencies."""
    scenario = context.run.scenario
    if scenario is None or not scenario.clients or not scenario.classes:
        return None
    clients = slowest_first(scenario)
    figure = Figure(figsize=(7.2, 1.6 + 0.2 * min(len(scenario.classes), 30)), layout="constrained")
    bars, cells = figure.subplots(2, 1, sharex=True, height_ratios=[1, 2.4])
    bars.set_title(f"Who is slow, and what they hold (seed {scenario.seed})")
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
            for k in range(len(scenario.classes))
        ]
        cells.imshow(
            grid, aspect="auto", cmap=_ramp(colour), vmin=0, vmax=deepest, interpolation="nearest"
        )
    cells.grid(visible=False)
    if len(scenario.classes) <= 30:
        cells.set_yticks(range(len(scenario.classes)), [plain(c) for c in scenario.classes])
        for position in scenario.affected:
            cells.get_yticklabels()[position].set(color=SLOW, fontweight="bold")
    cells.set_xticks([])
    cells.set_xlabel(f"{len(clients)} clients, the slowest first")
    cells.set_ylabel("class")
    return figure


def draw_staleness(context: Context) -> Figure | None:
    """Draw the staleness of what arrived, for the pattern that most methods share."""
    grids = [grid for grid in arrival_grids(context.run) if grid.has_stale]
    if not grids:
        return None
    columns = grids[0].columns
    figure, axes = axes_with(
        "Staleness over time", "round", "staleness (versions)", size=(7.2, 3.4)
    )
    edges_x = [columns[0].first - 0.5, *(column.last + 0.5 for column in columns)]
    edges_y = [-0.5, *(0.5 + k * grids[0].width for k in range(grids[0].num_rows))]
    density = [[math.sqrt(c.rows[k]) for c in columns] for k in range(grids[0].num_rows)]
    axes.pcolormesh(edges_x, edges_y, density, cmap=_ramp(FAST), rasterized=True)
    middle = [(column.first + column.last) / 2 for column in columns]
    axes.plot(middle, [column.mean for column in columns], color=INK, linewidth=1.2)
    axes.grid(visible=False)
    return figure


def draw_class_accuracy(context: Context) -> Figure | None:
    """Draw accuracy by class as a table of methods by classes."""
    run = context.run
    found = {m.label: row for m in run.methods if (row := class_accuracy(run, m.label))}
    if not found:
        return None
    width = max(len(row) for row in found.values())
    size = (min(2.4 + 0.5 * width, 16), 1.1 + 0.3 * len(found))
    figure, axes = axes_with("Accuracy by class, last fifth of the rounds", "class", "", size=size)
    grid = [
        [math.nan if c >= len(row) or (v := row[c]) is None else v for c in range(width)]
        for row in found.values()
    ]
    axes.imshow(grid, aspect="auto", cmap=_ramp(FAST), vmin=0, vmax=1.4)
    axes.grid(visible=False)
    axes.set_yticks(range(len(found)), [plain(label) for label in found])
    axes.set_xticks(range(width), [plain(name) for name in class_names(run, width)])
    for position in run.affected:
        if position < width:
            axes.get_xticklabels()[position].set(color=SLOW, fontweight="bold")
    if width <= 20:
        for y, values in enumerate(grid):
            for x, value in enumerate(values):
                if not math.isnan(value):
                    axes.text(x, y, f"{value:.2f}", ha="center", va="center", fontsize=7.5)
    return figure
