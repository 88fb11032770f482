"""The summary as a table in the terminal."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

_COLUMNS = (
    ("accuracy", "accuracy"),
    ("affected_accuracy", "affected"),
    ("affected_mean", "affected mean"),
    ("rounds_to_target", "to target"),
)


def summary_table(summary: Mapping[str, Any], console: Console | None = None) -> None:
    """Print a summary: one row per method, with the spread over seeds."""
    seeds = len(summary["seeds"])
    caption = (
        f"{summary['rounds']} rounds, {seeds} seed{'s' if seeds > 1 else ''}; accuracy and "
        "affected: means over the last fifth of the rounds; affected mean: over the second half"
        + ("; ± one standard deviation over seeds" if seeds > 1 else "")
        + f"; to target: first round at {summary['target']:g}"
    )
    table = Table(
        title=summary["scenario"],
        caption=caption,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("method")
    for _, title in _COLUMNS:
        table.add_column(title, justify="right")
    table.add_column("seconds", justify="right")
    for label, figures in summary["methods"].items():
        cells = [_cell(key, figures) for key, _ in _COLUMNS]
        table.add_row(label, *cells, f"{figures['seconds']:.1f}")
    (console or Console()).print(table)


def _cell(key: str, figures: Mapping[str, Any]) -> str:
    value, spread = figures[key], figures["spread"][key]
    if value is None:
        return "never" if key == "rounds_to_target" else "–"
    if key == "rounds_to_target":
        return f"{value:.0f}"
    return f"{value:.3f}" + (f" ±{spread:.3f}" if spread is not None else "")
