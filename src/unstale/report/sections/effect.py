"""The effect: affected-class accuracy by round, one line for each method."""

from typing import Any

from unstale.report.context import Context, Section
from unstale.report.markup import chart, series_data
from unstale.report.series import over_rounds


def build(context: Context) -> Section | None:
    """Build the section, or say that nothing was evaluated yet."""
    run = context.run
    lines = [
        series_data(method.label, line)
        for method in run.methods
        if (line := over_rounds(run.rounds.get(method.label, {}), lambda r: r.affected_accuracy))
    ]
    if not lines:
        return Section("effect", "The effect", "<p>No round has been evaluated yet.</p>")
    spec: dict[str, Any] = {
        "kind": "lines",
        "title": "Affected-class accuracy by round",
        "desc": "Test accuracy in the affected class by round: one line for each method, "
        "the mean over seeds, with a band from the lowest seed to the highest.",
        "x": {"label": "round", "max": run.last_round},
        "y": {"label": "accuracy in the affected class", "min": 0, "max": 1, "digits": 3},
        "series": lines,
        "marks": []
        if run.target is None
        else [{"y": run.target, "label": f"target {run.target:.2f}"}],
        "hero": True,
    }
    several = len(run.seeds) > 1
    caption = (
        (
            "Lines are means over seeds, bands run from the lowest seed to the highest. "
            if several
            else ""
        )
        + "Point at the chart, or focus it and use the arrow keys, to read values; "
        "press a method to hide it everywhere."
    )
    return Section(
        "effect",
        "Affected-class accuracy by round",
        chart(context, "affected_accuracy", spec, caption),
    )
