"""The summary of a run folder, from its lines alone.

The definitions of the figures are here and nowhere else: the summary, the tables and the
report page all use them.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unstale.files import write_json
from unstale.run_folder.folder import RunFolder
from unstale.run_folder.lines import Lines
from unstale.run_folder.schema import Round
from unstale.run_folder.time_to_target import WINDOW, held_from, rounds_saved

FORMAT = 2
"""The version of `summary.json`. Format 1 had `rounds_to_target`, the first round at the target,
and neither `held_from` nor what follows from it."""
# The method that rounds saved are compared with, if an experiment does not say.
REFERENCE = "unweighted"

# The figures of a summary that vary from seed to seed and get a spread.
FIGURES = ("accuracy", "affected_accuracy", "affected_mean")
# Time: the round from which the target is held and in how many seeds it is; the rounds that are
# saved, their share of the reference's, and in how many seeds both hold the target.
TIMES = ("held_from", "held_seeds", "rounds_saved", "share_saved", "saved_seeds")
# Seeds in which something went wrong.
FAULTS = ("diverged",)
# Sums over all rounds of a seed.
COUNTS = ("conversions", "iterations", "stand_ins", "probe_fits")
# Means over all stand-ins of a seed, over all checks of them (twice), and over all conversions.
MEANS = ("stand_in_age", "stand_in_error", "stand_in_l1", "share")


def figures(
    lines: Sequence[Round], rounds: int, target: float, window: int = WINDOW
) -> dict[str, Any]:
    """Return the figures of one method with one seed.

    `accuracy` and `affected_accuracy` are means over the last fifth of the rounds,
    `affected_mean` is one over the second half; `held_from` is the round from which the affected
    accuracy, smoothed over `window` rounds, holds the target to the end (`time_to_target.py`).
    Rounds that were not evaluated are left out, and a figure without any value is None.
    `diverged` says whether the loss of the model was no longer finite in the end. `stand_ins`
    counts updates that the server made for absent clients; `stand_in_age` is the mean of their
    ages, `stand_in_error` the mean cosine distance that later updates of the clients showed,
    `stand_in_l1` the mean relative L1 error. `probe_fits` counts fits that only served
    calibration; `share` is the mean share of the estimates in what was used of conversions, None
    where estimates were used as they are.

    Example:
        >>> lines = [Round(r, accuracy=0.5, affected_accuracy=r / 10) for r in range(1, 11)]
        >>> figures(lines, rounds=10, target=0.75, window=2)["held_from"]
        8
        >>> figures(lines, rounds=10, target=0.75)["affected_accuracy"]
        0.95
    """

    def mean(pick: Callable[[Round], float | None], after: float) -> float | None:
        values = [v for line in lines if line.number > after and (v := pick(line)) is not None]
        return statistics.fmean(values) if values else None

    def affected(line: Round) -> float | None:
        return line.affected_accuracy

    scores = ((line.number, v) for line in lines if (v := line.affected_accuracy) is not None)
    ages = [one.age for line in lines for one in line.stand_ins]
    checks = [one for line in lines for one in line.checked]
    errors = [e for one in checks if (e := one.error) is not None]
    l1 = [e for one in checks if (e := one.l1) is not None]
    shares = [s for line in lines for one in line.converted if (s := one.share) is not None]
    return {
        "accuracy": mean(lambda line: line.accuracy, rounds * 4 / 5),
        "affected_accuracy": mean(affected, rounds * 4 / 5),
        "affected_mean": mean(affected, rounds / 2),
        "held_from": held_from(scores, target, window),
        "diverged": _has_diverged(lines),
        "conversions": sum(line.conversions for line in lines),
        "iterations": sum(line.iterations for line in lines),
        "stand_ins": len(ages),
        "stand_in_age": statistics.fmean(ages) if ages else None,
        "stand_in_error": statistics.fmean(errors) if errors else None,
        "stand_in_l1": statistics.fmean(l1) if l1 else None,
        "probe_fits": sum(line.notes.get("probed", 0) for line in lines),
        "share": statistics.fmean(shares) if shares else None,
    }


def _has_diverged(lines: Sequence[Round]) -> bool:
    """Return whether the loss was finite once, and not in the end."""
    losses = [line.loss for line in lines if line.accuracy is not None]
    return bool(losses) and losses[-1] is None and any(loss is not None for loss in losses)


def over_seeds(per_seed: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the mean figures over seeds, their spread, and each seed's own.

    The spread is the sample standard deviation, None for fewer than two values. A mean over
    seeds of which one has no value is None. `held_from` is a mean over the seeds that held the
    target, `held_seeds` their number; `diverged` is the number of seeds that diverged. Age and
    error of stand-ins and the share of estimates are means over the seeds that had some.
    """
    rows = list(per_seed.values())
    summary: dict[str, Any] = {}
    spread: dict[str, float | None] = {}
    for key in FIGURES:
        values = [row[key] for row in rows]
        whole = bool(values) and all(value is not None for value in values)
        summary[key] = statistics.fmean(values) if whole else None
        spread[key] = statistics.stdev(values) if whole and len(values) > 1 else None
    times = [at for row in rows if (at := row["held_from"]) is not None]
    summary["held_from"] = statistics.fmean(times) if times else None
    summary["held_seeds"] = len(times)
    spread["held_from"] = statistics.stdev(times) if len(times) > 1 else None
    summary["diverged"] = sum(bool(row["diverged"]) for row in rows)
    for key in COUNTS:
        summary[key] = statistics.fmean(row[key] for row in rows) if rows else 0.0
    for key in MEANS:
        found = [row[key] for row in rows if row[key] is not None]
        summary[key] = statistics.fmean(found) if found else None
    summary["spread"] = spread
    summary["per_seed"] = [{"seed": seed, **row} for seed, row in per_seed.items()]
    return summary


def with_savings(
    methods: Mapping[str, Mapping[str, Any]], reference: str | None
) -> dict[str, dict[str, Any]]:
    """Return the methods' summaries with the rounds that each saves against the reference.

    `rounds_saved` and `share_saved` are means over the `saved_seeds` seeds in which both hold the
    target; None where there is none, and for the reference itself.

    Args:
        methods: What `over_seeds` returned, by label.
        reference: The label of the method to compare with; None compares with none.
    """
    times = {
        label: {row["seed"]: row["held_from"] for row in found["per_seed"]}
        for label, found in methods.items()
    }
    summaries = {}
    for label, found in methods.items():
        compared = reference in times and reference != label
        saved = rounds_saved(times[label], times[str(reference)]) if compared else None
        summaries[label] = {
            **found,
            "rounds_saved": saved.rounds if saved else None,
            "share_saved": saved.share if saved else None,
            "saved_seeds": saved.seeds if saved else 0,
            "spread": {**found["spread"], "share_saved": saved.spread if saved else None},
        }
    return summaries


def reference_of(config: Mapping[str, Any]) -> str | None:
    """Return the label of the method that rounds saved are compared with; None if there is none.

    It is `evaluate.reference` of a resolved config, or else the first `unweighted`.
    """
    chosen = config["evaluate"].get("reference")
    key, wanted = ("name", REFERENCE) if chosen is None else ("label", chosen)
    return next((m["label"] for m in config["methods"] if m.get(key) == wanted), None)


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
    reference = reference_of(config)
    methods: dict[str, Any] = {}
    timing: dict[str, Any] = {}
    for method in config["methods"]:
        label = method["label"]
        lines = {s: Lines(folder.lines_path(label, s)).read() for s in config["seeds"]}
        found = {seed: figures_of_part(config, of_seed) for seed, of_seed in lines.items()}
        methods[label] = {"name": method.get("name", label), **over_seeds(found)}
        seconds = [sum(line.seconds for line in of_seed) for of_seed in lines.values()]
        timing[label] = {"seconds": sum(seconds), "per_seed": seconds}
    summary = {
        "format": FORMAT,
        "scenario": config["name"],
        "seeds": config["seeds"],
        "rounds": rounds,
        "target": target,
        "window": _window(config),
        "reference": reference,
        "methods": with_savings(methods, reference),
    }
    return summary, {"methods": timing}


def figures_of_part(config: Mapping[str, Any], lines: Sequence[Round]) -> dict[str, Any]:
    """Return the figures of one method with one seed, in the terms of a resolved config."""
    target = config["evaluate"]["target"]
    # A run on real clients may have no target, and an open end.
    goal = math.inf if target is None else target
    return figures(lines, config["rounds"], goal, _window(config))


def _window(config: Mapping[str, Any]) -> int:
    window: int = config["evaluate"].get("window") or WINDOW
    return window


def for_programs(folder: RunFolder) -> dict[str, Any]:
    """Return what `--json` prints: the summary with the seconds, and where the run lies."""
    summary = folder.read_json(folder.summary_path)
    timing = folder.read_json(folder.path / "timing.json")["methods"]
    for label, found in summary["methods"].items():
        found["seconds"] = timing[label]["seconds"]
    return {**summary, "run": str(folder.path)}
