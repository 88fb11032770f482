"""The effect: affected-class accuracy by round, one line for each method.

Where nobody says which classes are affected, it is the accuracy in all of them.
"""

from typing import Any

from unstale.report.context import Context, Section
from unstale.report.markup import chart, series_data
from unstale.report.records import Round, Run
from unstale.report.series import over_rounds


def in_affected(record: Round) -> float | None:
    """Pick the accuracy in affected classes."""
    return record.affected_accuracy


def in_all(record: Round) -> float | None:
    """Pick the accuracy in all classes."""
    return record.accuracy


def _words(run: Run) -> tuple[str, str, str]:
    """Return the chart's key, its title, and where the accuracy is measured."""
    if run.knows_affected:
        return "affected_accuracy", "Affected-class accuracy by round", "in the affected class"
    return "accuracy", "Accuracy by round", "in all classes"


def build(context: Context) -> Section | None:
    """Build the section, or say that nothing was evaluated yet; None where nothing will be."""
    run = context.run
    key, title, where = _words(run)
    pick = in_affected if run.knows_affected else in_all
    lines = [
        series_data(method.label, line)
        for method in run.methods
        if (line := over_rounds(run.rounds.get(method.label, {}), pick))
    ]
    if not lines:
        if run.nodes:
            return None  # the first sentence says so
        return Section("effect", "The effect", "<p>No round has been evaluated yet.</p>")
    several = len(run.seeds) > 1
    spec: dict[str, Any] = {
        "kind": "lines",
        "title": title,
        "desc": f"Test accuracy {where} by round: one line for each method, "
        "the mean over seeds, with a band from the lowest seed to the highest.",
        "x": {"label": "round", "max": run.last_round},
        "y": {"label": f"accuracy {where}", "min": 0, "max": 1, "digits": 3},
        "series": lines,
        "marks": []
        if run.target is None or not run.knows_affected
        else [{"y": run.target, "label": f"target {run.target:.2f}"}],
        "hero": True,
    }
    caption = (
        (
            "Lines are means over seeds, bands run from the lowest seed to the highest. "
            if several
            else ""
        )
        + "Point at the chart, or focus it and use the arrow keys, to read values; "
        "press a method to hide it everywhere."
    )
    return Section("effect", title, chart(context, key, spec, caption))
