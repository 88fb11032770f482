"""The numbers of the page's table in the form of `summary.json`, for terminal and programs."""

from collections.abc import Mapping
from typing import Any

from unstale.report.context import Context
from unstale.report.records import MethodSummary


def as_summary(context: Context, title: str) -> dict[str, Any]:
    """Return the summary of a run, or of runs side by side, also where no file holds one.

    Args:
        context: What the page is made from.
        title: What stands in the place of the scenario's name.
    """
    run = context.run
    return {
        "scenario": title,
        "seeds": list(run.seeds),
        "rounds": run.last_round,
        "target": run.target,
        "window": run.window,
        "reference": run.reference,
        "methods": {
            m.label: _method(context.summary.methods[m.label], m.name, _seconds(context, m.label))
            for m in run.methods
            if m.label in context.summary.methods
        },
    }


def _method(found: MethodSummary, name: str, seconds: float) -> Mapping[str, Any]:
    return {
        "name": name,
        **found.values,
        "held_seeds": int(found.values.get("held_seeds") or 0),
        "spread": dict(found.spread),
        "per_seed": [{}] * found.seeds,
        "seconds": seconds,
    }


def _seconds(context: Context, label: str) -> float:
    recorded = context.run.seconds.get(label)
    if recorded is not None:
        return recorded
    by_seed = context.run.rounds.get(label, {})
    return sum(r.seconds for rounds in by_seed.values() for r in rounds)
