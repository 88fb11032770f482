"""What the server did with the updates: fallbacks, drops and refusals."""

from collections import Counter
from collections.abc import Callable

from unstale.report.context import Context, Section
from unstale.report.markup import chart, method_tag, series_data, table, text, whole
from unstale.report.records import Method, Round, Run
from unstale.report.series import totals

COUNTERS: tuple[tuple[str, str, Callable[[Round], int]], ...] = (
    ("fallbacks", "Fallbacks", lambda r: r.notes.get("fallback", 0)),
    ("dropped", "Dropped updates", lambda r: r.notes.get("dropped", 0)),
    ("refusals", "Refusals", lambda r: sum(r.refused.values())),
)


def build(context: Context) -> Section | None:
    """Build the section; says so where there was nothing of the kind."""
    run = context.run
    if not run.rounds:
        return None
    charts = []
    absent = []
    for key, title, count in COUNTERS:
        lines = [
            series_data(method.label, line, digits=1)
            for method in run.methods
            if (line := totals(run.rounds.get(method.label, {}), count))
        ]
        if not lines:
            absent.append(title.lower())
            continue
        spec = {
            "kind": "lines",
            "small": True,
            "title": title,
            "desc": f"{title} since the start, by round: one line for each method that has any.",
            "x": {"label": "round", "max": run.last_round},
            "y": {
                "label": "since the start" + (", mean over seeds" if len(run.seeds) > 1 else ""),
                "min": 0,
                "digits": 1,
            },
            "series": lines,
        }
        charts.append(chart(context, key, spec))
    body = f'<div class="grid">{"".join(charts)}</div>' if charts else ""
    if absent:
        body += f'<p class="note">None: {text(", ".join(absent))}.</p>'
    return Section("handling", "What the server did", body + _totals_table(context))


def _totals_table(context: Context) -> str:
    run = context.run
    counted = {m.label: _totals(run, m) for m in run.methods if run.counted(m.label)}
    columns = list(dict.fromkeys(name for row in counted.values() for name in row))
    head = ['<th scope="col">Updates per seed</th>']
    head += [f'<th scope="col" class="num">{text(name)}</th>' for name in columns]
    rows = [
        f'<tr><th scope="row">{method_tag(context, label)}</th>'
        + "".join(f'<td class="num">{_count(row.get(name, 0))}</td>' for name in columns)
        + "</tr>"
        for label, row in counted.items()
    ]
    return table(head, rows)


def _count(value: float) -> str:
    return whole(value) if value else '<span class="quiet">0</span>'


def _totals(run: Run, method: Method) -> dict[str, float]:
    """Count what became of a method's updates, mean over seeds; what never happened is absent."""
    by_seed = run.counted(method.label)
    found: Counter[str] = Counter()
    for rounds in by_seed.values():
        for record in rounds:
            found["arrived"] += record.arrivals
            found["stale"] += record.stale
            found.update({name.replace("_", " "): n for name, n in record.notes.items()})
            found.update(
                {f"refused: {why.replace('_', ' ')}": n for why, n in record.refused.items()}
            )
    return {name: n / len(by_seed) for name, n in found.items() if n or name == "arrived"}
