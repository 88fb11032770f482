"""Figures as the JSON that the page's scripts draw, rounded to what was measured."""

from typing import Any

from unstale.report.figures.classes import ClientChart
from unstale.report.figures.conversions import FateChart
from unstale.report.figures.lines import Axis, Line, LineChart
from unstale.report.figures.staleness import StalenessChart
from unstale.report.records import Scenario

Chart = LineChart | ClientChart | StalenessChart | FateChart


def spec(chart: Chart) -> dict[str, Any]:
    """Return what a chart's script needs: its `kind`, `title`, `desc`, and what that kind draws."""
    common = {"title": chart.title, "desc": chart.desc}
    if isinstance(chart, LineChart):
        return common | _lines(chart)
    if isinstance(chart, ClientChart):
        return common | _clients(chart)
    if isinstance(chart, StalenessChart):
        return common | _staleness(chart)
    return common | _fates(chart)


def _lines(chart: LineChart) -> dict[str, Any]:
    drawn: dict[str, Any] = {
        "kind": "lines",
        "x": _axis(chart.x),
        "y": _axis(chart.y) | ({} if chart.y.log else {"digits": chart.y.digits}),
        "series": [_line(line, chart) for line in chart.lines],
    }
    flag = {"hero": "hero", "part": "headed", "small": "small"}.get(chart.size)
    if flag:
        drawn[flag] = True
    if chart.thin:
        drawn["thin"] = True
    if chart.window > 1:
        drawn["window"] = chart.window
    if chart.target is not None:
        drawn["marks"] = [{"y": chart.target, "label": f"target {chart.target:.2f}"}]
    return drawn


def _axis(axis: Axis) -> dict[str, Any]:
    told = {"label": axis.label, "min": axis.low, "max": axis.high, "log": axis.log or None}
    return {key: value for key, value in told.items() if value is not None}


def _line(line: Line, chart: LineChart) -> dict[str, Any]:
    rounded = significant if chart.y.log else short
    series, digits = line.series, chart.decimals
    data: dict[str, Any] = {
        "method": line.method,
        "x": series.x,
        "mean": [rounded(mean, digits) for mean in series.mean],
    }
    if series.low != series.high:
        data["low"] = [rounded(low, digits) for low in series.low]
        data["high"] = [rounded(high, digits) for high in series.high]
    if line.raw:
        data["raw"] = [rounded(raw, digits) for raw in line.raw]
    if line.variant:
        data["variant"] = line.variant
    if line.name:
        data["name"] = line.name
    return data


def _clients(chart: ClientChart) -> dict[str, Any]:
    return {"kind": "clients", "views": [_scenario(scenario) for scenario in chart.scenarios]}


def _scenario(scenario: Scenario) -> dict[str, Any]:
    return {
        "name": f"seed {scenario.seed}",
        "classes": scenario.classes,
        "affected": scenario.affected,
        "clients": [
            {
                "id": client.id,
                "latency": short(client.latency, 2),
                "slow": client.slow,
                # Pairs of class and examples: most clients hold few classes.
                "holds": [[c, n] for c, n in enumerate(client.histogram) if n],
            }
            for client in scenario.clients
        ],
    }


def _staleness(chart: StalenessChart) -> dict[str, Any]:
    return {
        "kind": "arrivals",
        "x": {"label": "round", "max": chart.last_round},
        "views": [
            {
                "name": chart.name(grid),
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
            for grid in chart.grids
        ],
    }


def _fates(chart: FateChart) -> dict[str, Any]:
    over_seeds = ", mean over seeds" if chart.several_seeds else ""
    return {
        "kind": "stack",
        "x": {"label": "round", "max": chart.last_round},
        "y": {"label": f"stale updates a round{over_seeds}"},
        "fates": [{"key": key, "name": name} for key, name in chart.fates],
        "views": [
            {
                "name": fates.label,
                "x": fates.x,
                "values": {
                    key: [short(value, 3) for value in values]
                    for key, values in fates.values.items()
                },
            }
            for fates in chart.methods
        ],
    }


def short(value: float, digits: int = 4) -> float | int:
    """Round for the page's JSON: fewer bytes, and no digits that nobody measured.

    Example:
        >>> short(0.12344), short(0.99999)
        (0.1234, 1)
    """
    rounded = round(value, digits)
    return int(rounded) if rounded == int(rounded) else rounded


def significant(value: float, digits: int = 4) -> float:
    """Round to significant digits, however small the number.

    Example:
        >>> significant(0.000123456)
        0.0001235
    """
    return float(f"{value:.{digits}g}")
