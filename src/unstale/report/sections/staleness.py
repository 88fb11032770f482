"""Staleness over time: how old the updates were that arrived."""

from unstale.report.arrivals import Arrivals, arrival_grids
from unstale.report.context import Context, Section
from unstale.report.markup import chart, short, text


def _name(grid: Arrivals, total: int) -> str:
    if len(grid.labels) == 1:
        return grid.labels[0]
    return "all methods" if len(grid.labels) == total else ", ".join(grid.labels)


def build(context: Context) -> Section | None:
    """Build the section; None where nothing arrived yet."""
    grids = arrival_grids(context.run)
    if not grids:
        return None
    stale = [grid for grid in grids if grid.has_stale]
    if not stale:
        return Section("staleness", "Staleness over time", "<p>No update was stale.</p>")
    total = sum(len(grid.labels) for grid in grids)
    spec = {
        "kind": "arrivals",
        "title": "Staleness over time",
        "desc": "Rounds from left to right, staleness upwards. The deeper a cell, the more "
        "updates of that staleness arrived in that round. The line is the mean.",
        "x": {"label": "round", "max": context.run.last_round},
        "views": [
            {
                "name": _name(grid, total),
                "width": grid.width,
                "rows": grid.num_rows,
                "columns": [
                    {
                        "first": column.first,
                        "last": column.last,
                        "mean": short(column.mean, 2),
                        "max": column.highest,
                        "cells": [[row, short(n, 2)] for row, n in enumerate(column.rows) if n],
                    }
                    for column in grid.columns
                ],
            }
            for grid in stale
        ],
    }
    fresh = [label for grid in grids if not grid.has_stale for label in grid.labels]
    caption = "Bottom row: fresh updates. The line is the mean over everything that arrived."
    if len(stale) == 1 and len(stale[0].labels) > 1:
        caption += f" The same for {text(', '.join(stale[0].labels))}."
    if fresh:
        verb = "knows" if len(fresh) == 1 else "know"
        caption += f" {text(', '.join(fresh))} {verb} no delay."
    return Section("staleness", "Staleness over time", chart(context, "staleness", spec, caption))
