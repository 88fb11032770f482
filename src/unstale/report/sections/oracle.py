"""What only a simulation can know: how far updates are from the true fresh ones."""

import statistics
from collections.abc import Callable
from typing import Any

from unstale.report.context import Context, Section
from unstale.report.markup import chart, decimal, method_tag, series_data, table
from unstale.report.records import Method, Round, Run
from unstale.report.series import over_rounds

BEFORE, AFTER = "stale_cosine", "compensated_cosine"


def measured(key: str) -> Callable[[Round], float | None]:
    """Return what picks one of the oracle's measurements from a round."""
    return lambda record: record.oracle.get(key)


def build(context: Context) -> Section | None:
    """Build the section; None where the run did not measure it."""
    run = context.run
    lines: list[dict[str, Any]] = []
    for method in run.methods:
        by_seed = run.rounds.get(method.label, {})
        after, before = (over_rounds(by_seed, measured(key)) for key in (AFTER, BEFORE))
        if after:
            lines.append(series_data(method.label, after, log=True))
        # A method that leaves updates as they are would have the same line twice.
        if before and before != after:
            line = series_data(method.label, before, log=True)
            lines.append({**line, "variant": "as it arrived"})
    lines = [line for line in lines if line["x"]]
    if not lines:
        return None
    spec = {
        "kind": "lines",
        "title": "Error of stale updates",
        "desc": "Cosine distance between the update the server used for a slow client and the "
        "one that client would have sent without delay, by round and method.",
        "x": {"label": "round", "max": run.last_round},
        "y": {"label": "cosine distance to the true fresh update", "log": True},
        "series": lines,
    }
    caption = (
        "Solid: the update as the method used it. Dotted: the same update as it arrived. "
        "Lower is better; no server can know this, only a simulation."
    )
    body = chart(context, "update_error", spec, caption) + _table(context)
    return Section("error", "Against the truth", body)


def _table(context: Context) -> str:
    rows = []
    for method in context.run.methods:
        before, after = (_median(context.run, method, key) for key in (BEFORE, AFTER))
        if before is None or after is None:
            continue
        gain = f"{before / after:,.1f} ×" if 0 < after < before * 0.95 else "–"
        rows.append(
            f'<tr><th scope="row">{method_tag(context, method.label)}</th>'
            f'<td class="num">{decimal(before, 4)}</td><td class="num">{decimal(after, 4)}</td>'
            f'<td class="num">{gain}</td></tr>'
        )
    head = ['<th scope="col">Median error</th>'] + [
        f'<th scope="col" class="num">{title}</th>'
        for title in ("As it arrived", "As used", "Smaller by")
    ]
    return table(head, rows) if rows else ""


def _median(run: Run, method: Method, key: str) -> float | None:
    found = [
        value
        for rounds in run.rounds.get(method.label, {}).values()
        for record in rounds
        if (value := record.oracle.get(key)) is not None
    ]
    return statistics.median(found) if found else None
