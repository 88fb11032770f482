"""Switching back: what late truth said of estimates, and who went back to stale updates."""

from typing import Any

from unstale.report.context import Context, Section
from unstale.report.conversions import Measured
from unstale.report.markup import chart, method_tag, series_data
from unstale.report.series import Series, over_rounds
from unstale.report.switching import MAX_LINES, Share, found_late, shares, verdicts


def _estimate(one: Measured) -> float | None:
    return one.estimate_error


def _stale(one: Measured) -> float | None:
    return one.stale_error


def late_lines(context: Context) -> list[tuple[str, Series, bool]]:
    """Return what was found out late: method label, error, whether the stale update's."""
    run = context.run
    return [
        (method.label, line, dotted)
        for method in run.methods
        for pick, dotted in ((_estimate, False), (_stale, True))
        if (line := over_rounds(run.rounds.get(method.label, {}), found_late(pick)))
    ]


def build(context: Context) -> Section | None:
    """Build the section; None where nobody switched and nothing was found out late."""
    switched = shares(context.run)
    body = _gamma(context, switched) if switched else ""
    late = _late(context)
    if not body and not late:
        return None
    return Section("switching", "Switching back", body + late + _verdicts(context, bool(switched)))


def _gamma(context: Context, switched: list[Share]) -> str:
    run = context.run
    spec = {
        "kind": "lines",
        "title": "Share of the estimate by client",
        "desc": "How much of the estimate is in what was used of a client, by round: one line "
        "for each client that switched back. 1: the estimate alone. 0: the stale update alone.",
        "x": {"label": "round", "max": run.last_round},
        "y": {"label": "γ, the share of the estimate", "min": 0, "max": 1, "digits": 2},
        "thin": True,
        "headed": True,
        "series": [
            {**series_data(share.label, share.line), "name": share.name} for share in switched
        ],
    }
    more = f" The first {MAX_LINES} are drawn." if len(switched) == MAX_LINES else ""
    caption = f"Each line is a client that switched back.{more}"
    return chart(context, "gamma", spec, caption)


def _late(context: Context) -> str:
    lines: list[dict[str, Any]] = []
    for label, line, dotted in late_lines(context):
        data = series_data(label, line, log=True)
        if data["x"]:
            lines.append({**data, "variant": "stale update"} if dotted else data)
    if not lines:
        return ""
    spec = {
        "kind": "lines",
        "title": "What the server found out late",
        "desc": "Error of earlier estimates, and of the stale updates that were at hand then, "
        "against the client's own update that came later; by the round in which it came.",
        "x": {"label": "round", "max": context.run.last_round},
        "y": {"label": "error against what came later", "log": True},
        "headed": True,
        "series": lines,
    }
    caption = (
        "When a client's own update comes, the server compares it with the estimate it once made "
        "in its place. Solid: the estimate's error. Dotted: that of the stale update it had then."
    )
    return chart(context, "late_truth", spec, caption)


def _verdicts(context: Context, any_switched: bool) -> str:
    said = []
    for method in context.run.methods:
        better, total = verdicts(context.run, method)
        if total:
            said.append(
                f"{method_tag(context, method.label)}: the estimate was the better one "
                f"{better:,} of {total:,} times."
            )
    if not any_switched:
        said.append("No client switched back to stale updates.")
    return f'<p class="note">{" ".join(said)}</p>'
