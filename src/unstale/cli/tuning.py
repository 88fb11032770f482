"""Tuning in the terminal: what is about to be tried, and afterwards what was chosen."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from unstale.run_folder.tuning import TuningRecord
from unstale.run_folder.tuning_words import extent_in_words, seeds_in_words, settings_in_words

if TYPE_CHECKING:
    from unstale.experiment import ExperimentConfig, RunFolder


def find_tuned(
    config: "ExperimentConfig",
    experiment: str,
    folder: "RunFolder",
    *,
    tune: bool,
    tuned: Path | None,
) -> Path | None:
    """Return where settings are that were tuned before: as told, or beside the file.

    A run that tunes needs none, and one that is resumed has its own.
    """
    from unstale.experiment import tuning_beside

    if tuned is not None or tune or folder.is_run or not config.tunable:
        return tuned
    return tuning_beside(experiment)


def plan_in_words(
    config: "ExperimentConfig", record: TuningRecord | None, source: Path | None
) -> list[str]:
    """Say with which settings methods will run that list some to try.

    Args:
        config: The experiment.
        record: What the run will go by.
        source: Where it comes from, if it is of another run.
    """
    if record is not None and record.elsewhere is None:
        return _planned(record)
    tuned = {} if record is None else record.methods
    said = []
    if tuned:
        said.append(f"Tuned before{f' ({source})' if source else ''}:")
    for label, one in tuned.items():
        said.append(f"  {label}: {_chosen(None if one.choice is None else one.choice.settings)}")
    if record is not None and record.elsewhere:
        said.append(f"That experiment differed in: {', '.join(record.elsewhere)}.")
    if rest := [method.label for method in config.tunable if method.label not in tuned]:
        said.append(
            f"Not tuned: {', '.join(rest)}. Their own settings are used, not the lists in `tune`"
            f"{'.' if tuned else '; --tune chooses from these.'}"
        )
    return said


def _planned(record: TuningRecord) -> list[str]:
    said = [
        f"Tuning on {seeds_in_words(record.seeds)}, by {record.criterion}: {record.says}. "
        f"Budget: {record.budget} per method."
    ]
    for label, one in record.methods.items():
        said.append(f"  {label}: {extent_in_words(len(one.tries), one.size, record.budget)}")
    return said


def tuning_table(tuning: Mapping[str, Any], console: Console | None = None) -> None:
    """Print what a summary says of a tuning: one row per method, with what was chosen."""
    caption = [f"score: {tuning['says']}"]
    if tuning["elsewhere"] is not None:
        caption.append("tuned in another run")
    table = Table(
        title=f"tuned on {seeds_in_words(tuning['seeds'])}",
        caption="; ".join(caption),
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for title in ("method", "chosen", "score", "tried"):
        table.add_column(title, justify="right" if title == "score" else "left")
    for label, one in tuning["methods"].items():
        tried = one["tried"]
        extent = extent_in_words(len(tried), one["candidates"], tuning["budget"])
        faults = sum(bool(t["fault"]) for t in tried)
        score = "–" if one["score"] is None else f"{one['score']:.3f}"
        bad = f"; {faults} diverged or failed" if faults else ""
        table.add_row(label, _chosen(one["chosen"]), score, extent + bad)
    (console or Console()).print(table)


def _chosen(settings: Mapping[str, Any] | None) -> str:
    """Return what was chosen; without a sound try a method keeps its own settings."""
    return "none: its own settings" if settings is None else settings_in_words(settings)
