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
    # A run on real clients may not know which classes are affected.
    columns = [
        (key, title)
        for key, title in _COLUMNS
        if key == "accuracy"
        or (key == "rounds_to_target" and summary["target"] is not None)
        or any(figures[key] is not None for figures in summary["methods"].values())
    ]
    shown = {title for _, title in columns}
    explained = {
        "affected": "accuracy and affected: means over the last fifth of the rounds",
        "affected mean": "affected mean: over the second half",
    }
    stood_in = any(figures.get("stand_ins") for figures in summary["methods"].values())
    caption = [f"{summary['rounds']} rounds, {seeds} seed{'s' if seeds > 1 else ''}"]
    if "affected" not in shown:
        caption.append("accuracy: mean over the last fifth of the rounds")
    caption += [text for title, text in explained.items() if title in shown]
    if seeds > 1:
        caption.append("± one standard deviation over seeds")
    if summary["target"] is not None:
        caption.append(f"to target: first round at {summary['target']:g}")
    if stood_in:
        per_seed = ", per seed" if seeds > 1 else ""
        caption.append(f"stood in: updates made for absent clients{per_seed}")
    table = Table(
        title=summary["scenario"],
        caption="; ".join(caption),
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        # One column more has to fit into 80 characters beside the spreads.
        padding=(0, 1, 0, 0) if stood_in else (0, 1),
    )
    table.add_column("method")
    titles = [*(title for _, title in columns), *(["stood in"] if stood_in else []), "seconds"]
    for title in titles:
        head = title.replace(" ", "\n") if stood_in else title
        table.add_column(head, justify="right")
    for label, figures in summary["methods"].items():
        cells = [_cell(key, figures) for key, _ in columns]
        if stood_in:
            cells.append(f"{figures.get('stand_ins', 0):.0f}")
        table.add_row(label, *cells, f"{figures['seconds']:.1f}")
    (console or Console()).print(table)


def _cell(key: str, figures: Mapping[str, Any]) -> str:
    value, spread = figures[key], figures["spread"][key]
    if value is None:
        return "never" if key == "rounds_to_target" else "–"
    if key == "rounds_to_target":
        return f"{value:.0f}"
    return f"{value:.3f}" + (f" ±{spread:.3f}" if spread is not None else "")
