"""The summary as a table in the terminal."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table

from unstale.run_folder.best import NEAR, best_of, entrants_of
from unstale.run_folder.protection_words import protection_in_words

_COLUMNS = (
    ("accuracy", "accuracy"),
    ("affected_accuracy", "affected"),
    ("affected_mean", "affected mean"),
    ("held_from", "held from"),
    ("share_saved", "saved"),
)


class Cells(NamedTuple):
    """A summary in words: what stands in a table, wherever it is shown."""

    titles: list[str]
    """The titles of the columns, that of the methods first."""
    rows: list[list[str]]
    """One row per method."""
    caption: str
    """What the columns mean."""
    stood_in: bool
    """Whether a method stood in for clients, which takes a column more."""


def summary_cells(summary: Mapping[str, Any], *, narrow: bool = False, mark: bool = True) -> Cells:
    """Return a summary in words: one row per method, with the spread over seeds, best starred.

    Args:
        summary: What `for_programs` returned.
        narrow: Save some spaces if there are many columns.
        mark: Whether methods may be compared, so that the best are starred.
    """
    methods = summary["methods"]
    # Summaries of before had another measure of time, which is not shown any more.
    has_time = summary["target"] is not None and "window" in summary
    # Nothing may say which classes are affected: then there is no time to their target, either.
    has_time = has_time and any(f.get("affected_accuracy") is not None for f in methods.values())
    columns = [
        (key, title)
        for key, title in _COLUMNS
        if key == "accuracy"
        or (key == "held_from" and has_time)
        or any(figures.get(key) is not None for figures in methods.values())
    ]
    best = best_of(entrants_of(methods) if mark else {})
    marked = any(best[key] for key, _ in columns)
    stood_in = any(figures.get("stand_ins") for figures in methods.values())
    titles = [title for _, title in columns]
    # Only of updates that are differentially private.
    spent = summary.get("privacy", {}).get("methods", {})
    titles = ["method", *titles, *(["stood in"] if stood_in else [])]
    titles += [*(["ε"] if spent else []), "seconds"]
    rows = []
    for label, figures in methods.items():
        cells = [_cell(key, figures, label in best[key], narrow and stood_in) for key, _ in columns]
        if stood_in:
            cells.append(f"{figures.get('stand_ins', 0):.0f}")
        if spent:
            cells.append(f"{spent[label]['epsilon']:.3g}")
        rows.append([label, *cells, f"{figures['seconds']:.1f}"])
    caption = "; ".join(_caption(summary, {key for key, _ in columns}, marked, stood_in))
    return Cells(titles, rows, caption, stood_in)


def summary_table(
    summary: Mapping[str, Any], console: Console | None = None, *, mark: bool = True
) -> None:
    """Print a summary: one row per method, with the spread over seeds, the best ones starred."""
    found = summary_cells(summary, narrow=True, mark=mark)
    table = Table(
        title=summary["scenario"],
        caption=found.caption,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        # More columns have to fit into 80 characters beside the spreads.
        show_edge=not found.stood_in,
        padding=(0, 0) if found.stood_in else (0, 1),
    )
    table.add_column("method")
    for title in found.titles[1:]:
        head = title.replace(" ", "\n") if found.stood_in else title
        table.add_column(head, justify="right")
    for row in found.rows:
        table.add_row(*row)
    (console or Console()).print(table)


def _caption(
    summary: Mapping[str, Any], shown: set[str], marked: bool, stood_in: bool
) -> Iterator[str]:
    seeds = len(summary["seeds"])
    yield f"{summary['rounds']} rounds, {seeds} seed{'s' if seeds > 1 else ''}"
    if "affected_accuracy" in shown:
        yield "accuracy and affected: means over the last fifth of the rounds"
    else:
        yield "accuracy: mean over the last fifth of the rounds"
    if "affected_mean" in shown:
        yield "affected mean: over the second half"
    if seeds > 1:
        yield "± one standard deviation over seeds"
    if "held_from" in shown:
        smoothed = f", as a mean of {summary['window']} rounds," if summary["window"] > 1 else ""
        among = ", over the seeds that do" if seeds > 1 else ""
        yield (
            f"held from: the round from which affected accuracy{smoothed} is at least "
            f"{summary['target']:g} to the end{among}"
        )
    if "share_saved" in shown:
        yield f"saved: of the rounds that {summary['reference']} takes to that"
    if stood_in:
        yield f"stood in: updates made for absent clients{', per seed' if seeds > 1 else ''}"
    if privacy := summary.get("privacy"):
        yield f"clients' updates: {protection_in_words(privacy['protection'])}"
        if "methods" in privacy:
            yield f"ε: at δ = {privacy['delta']:g}, {privacy['assumed']}"
    if marked:
        yield f"*: best of those whose accuracy ends at most {NEAR:g} below the best"


def _cell(key: str, figures: Mapping[str, Any], starred: bool, narrow: bool) -> str:
    value, spread = figures.get(key), figures["spread"].get(key)
    if value is None:
        return "never" if key == "held_from" else "–"
    star = "*" if starred else ""
    digits = 0 if key == "held_from" else 3
    around = "" if spread is None else f"{'' if narrow else ' '}±{spread:.{digits}f}"
    if key == "held_from":
        seeds = len(figures["per_seed"])
        some = f" {figures['held_seeds']}/{seeds}" if figures["held_seeds"] < seeds else ""
        return f"{star}{value:.0f}{around}{some}"
    if key == "share_saved":
        return f"{star}{value:.0%}"
    return f"{star}{value:.3f}{around}"
