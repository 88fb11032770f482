"""The picture of privacy against accuracy, from the result files that are kept.

    python experiments/privacy_cost/picture.py results/privacy_against_accuracy.png

A dot is what surrogates show under a setting, a ring what an attack on the update alone shows;
the number in it is the setting. The accuracy axis is broken, as nothing lies in its middle.
"""

import sys
from pathlib import Path
from typing import Any

from tables import UPDATE, Seeds, best_baseline, kept, ordered, run, shown

SIZE = 4
PANELS = {
    "identified": "share of recovered samples that find their own original",
    "auc": "AUC of telling a client's samples from others",
}
COLOURS = {"nobody": "black", "server": "tab:blue", "client": "tab:orange"}


def draw(seeds: Seeds, path: Path) -> None:
    """Draw one panel for each measure, with a common accuracy axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = [name for name in ordered(seeds) if "audit" in seeds[0][name]]
    figure, grid = pyplot.subplots(
        2, len(PANELS), figsize=(13, 7.2), sharex="col", sharey="row",
        height_ratios=(4, 1), gridspec_kw={"hspace": 0.05, "wspace": 0.05},
    )  # fmt: skip
    for column, (measure, said) in enumerate(PANELS.items()):
        for axes in grid[:, column]:
            for number, name in enumerate(names, 1):
                _point(axes, seeds, name, number, measure)
            axes.axvline(best_baseline(seeds, SIZE, measure), ls=":", color="grey", zorder=0)
            for method in ("no_delay", "unweighted"):
                value = run(seeds, "default", method, "affected")
                axes.axhline(value or 0.0, ls="--", lw=0.8, color="grey", zorder=0)
        grid[1, column].set_xlabel(said)
    for axes in grid[0]:
        axes.set_ylim(0.68, 0.97)
        axes.tick_params(bottom=False)
    for axes in grid[1]:
        axes.set_ylim(-0.02, 0.1)
    grid[0, 0].set_ylabel("affected class at the end, `convert`")
    _legend(figure, grid, seeds, names)
    figure.savefig(path, bbox_inches="tight", dpi=100)
    pyplot.close(figure)


def _point(axes: Any, seeds: Seeds, name: str, number: int, measure: str) -> None:
    accuracy = run(seeds, name, "convert", "affected")
    marks = [
        (shown(seeds, name, SIZE, UPDATE, measure), "white"),
        (shown(seeds, name, SIZE, "surrogate", measure), COLOURS[seeds[0][name]["where"]]),
    ]
    colour = COLOURS[seeds[0][name]["where"]]
    there = [value for value, _ in marks if value is not None]
    axes.plot(there, [accuracy] * len(there), color=colour, lw=0.6, alpha=0.5, zorder=1)
    for value, inside in marks:
        if value is not None:
            axes.plot(value, accuracy, "o", mfc=inside, mec=colour, ms=13, alpha=0.85, zorder=2)
            axes.text(
                value, accuracy, str(number), ha="center", va="center", fontsize=7.5, zorder=3,
                color=colour if inside == "white" else "white", clip_on=True,
            )  # fmt: skip


def _legend(figure: Any, grid: Any, seeds: Seeds, names: list[str]) -> None:
    """Write the settings by number, in the colour of who protects, and what lines mean."""
    from matplotlib.lines import Line2D

    colours = [COLOURS[seeds[0][name]["where"]] for name in names]
    handles = [Line2D([], [], ls="", label=f"{i}  {name}") for i, name in enumerate(names, 1)]
    legend = figure.legend(
        handles=handles, loc="center left", bbox_to_anchor=(0.9, 0.5), fontsize=9,
        handlelength=0, frameon=False,
    )  # fmt: skip
    for text, colour in zip(legend.get_texts(), colours, strict=True):
        text.set_color(colour)
    best = best_baseline(seeds, SIZE, next(iter(PANELS)))
    grid[0, 0].text(best - 0.01, 0.7, "best baseline", rotation=90, ha="right", va="bottom",
                    fontsize=9, color="dimgrey")  # fmt: skip
    for axes, method in ((grid[0, 0], "no_delay"), (grid[1, 0], "unweighted")):
        value = run(seeds, "default", method, "affected")
        axes.text(0.01, (value or 0.0) + 0.002, f"{method}, unprotected", fontsize=8,
                  color="dimgrey", transform=axes.get_yaxis_transform())  # fmt: skip


if __name__ == "__main__":
    draw(kept(), Path(sys.argv[1]))
