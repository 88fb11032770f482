"""The summary of a run folder, from its lines alone."""

import math
from collections.abc import Mapping
from typing import Any

from unstale.files import write_json
from unstale.run_folder import figures as results
from unstale.run_folder.folder import RunFolder
from unstale.run_folder.lines import Lines

FORMAT = 1


def write_summary(folder: RunFolder, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write `timing.json` and `summary.json`; return the summary, with `more` if given.

    Times are kept apart: without them the summary of a run that was killed and resumed
    equals that of an undisturbed one to the byte.
    """
    summary, timing = summarise(folder)
    summary.update(more or {})
    write_json(folder.path / "timing.json", timing)
    write_json(folder.summary_path, summary)
    return summary


def summarise(folder: RunFolder) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the figures and the seconds of every method."""
    config = folder.read_json(folder.config_path)
    rounds, target = config["rounds"], config["evaluate"]["target"]
    goal = math.inf if target is None else target  # a run on real clients may have none
    methods: dict[str, Any] = {}
    timing: dict[str, Any] = {}
    for method in config["methods"]:
        label = method["label"]
        lines = {s: Lines(folder.lines_path(label, s)).read() for s in config["seeds"]}
        found = {s: results.figures(records, rounds, goal) for s, records in lines.items()}
        methods[label] = results.over_seeds(found)
        seconds = [sum(r["seconds"] for r in records) for records in lines.values()]
        timing[label] = {"seconds": sum(seconds), "per_seed": seconds}
    summary = {
        "format": FORMAT,
        "scenario": config["name"],
        "seeds": config["seeds"],
        "rounds": rounds,
        "target": target,
        "methods": methods,
    }
    return summary, {"methods": timing}


def for_programs(folder: RunFolder) -> dict[str, Any]:
    """Return what `--json` prints: the summary with the seconds, and where the run lies."""
    summary = folder.read_json(folder.summary_path)
    timing = folder.read_json(folder.path / "timing.json")["methods"]
    for label, figures in summary["methods"].items():
        figures["seconds"] = timing[label]["seconds"]
    return {**summary, "run": str(folder.path)}
