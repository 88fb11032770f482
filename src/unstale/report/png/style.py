"""How the PNGs look, and the small steps every one of them takes."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, MUTED, RULE, SLOW, FAST = "#1d1f23", "#6b6f76", "#e3e4e6", "#c2410c", "#3b5b7e"
# Any: matplotlib's own type for this changed between its versions.
SETTINGS: Any = {
    "text.parse_math": False,
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": RULE,
    "axes.labelcolor": MUTED,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "figure.facecolor": "white",
}


def plain(label: object) -> str:
    """Drop what no font can draw: control characters and halves of surrogate pairs."""
    kept = str(label).encode("utf-8", "replace").decode("utf-8")
    kept = "".join(char if char.isprintable() else " " for char in kept)
    return kept if len(kept) <= 32 else kept[:31] + "…"


def axes_with(
    title: str, x: str, y: str, size: tuple[float, float] = (7.2, 3.8)
) -> tuple[Figure, Axes]:
    """Return a figure of one plot, in inches, with its title and axis labels."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes
