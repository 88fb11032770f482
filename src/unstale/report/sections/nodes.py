"""Nodes: who answered, who was late, and what a round took; for runs on real clients."""

from unstale.report.context import Context, Section
from unstale.report.markup import chart, decimal, series_data, table, text, whole
from unstale.report.nodes import NodeHistory
from unstale.report.records import Round
from unstale.report.series import Series, over_rounds

# Rows of the table; the latest nodes come first.
MAX_NODES = 30


def round_seconds(record: Round) -> float | None:
    """Return what a round took, where clients are real: a simulated second tells nothing."""
    return record.seconds if record.nodes is not None else None


def seconds_lines(context: Context) -> list[tuple[str, Series]]:
    """Return method label and seconds by round, of methods that ran on real clients."""
    run = context.run
    return [
        (method.label, line)
        for method in run.methods
        if (line := over_rounds(run.rounds.get(method.label, {}), round_seconds))
    ]


def build(context: Context) -> Section | None:
    """Build the section; None for a simulation, which has its clients shown elsewhere."""
    run = context.run
    nodes = run.nodes
    if not nodes:
        return None
    spec = {
        "kind": "lines",
        "title": "Seconds a round",
        "desc": "Wall time of each round, from handing out work to the new model.",
        "x": {"label": "round", "max": run.last_round},
        "y": {"label": "seconds", "min": 0, "digits": 1},
        "headed": True,
        "series": [series_data(label, line, digits=2) for label, line in seconds_lines(context)],
    }
    return Section(
        "nodes",
        "Nodes",
        _table(nodes, "At the end" if run.finished else "Now") + chart(context, "seconds", spec),
    )


def _table(nodes: list[NodeHistory], when: str) -> str:
    shown = nodes[:MAX_NODES]
    refused = any(node.refused for node in nodes)
    titles = [
        ("Replies", ""),
        ("Late", "of them"),
        ("Rounds late", "median reply"),
        ("Longest", "rounds"),
        *([("Refused", "replies")] if refused else []),
        (when, ""),
    ]
    head = ['<th scope="col">Node</th>']
    head += [
        f'<th scope="col" class="num">{title}<small>{note}</small></th>' for title, note in titles
    ]
    most = max((node.typical for node in nodes), default=0) or 1
    rows = [_row(node, most, refused) for node in shown]
    rest = nodes[MAX_NODES:]
    note = ""
    if rest:
        longest = max(node.longest for node in rest)
        late = f"late by {longest:,} rounds at most" if longest else "never late"
        note = f'<p class="note">And {len(rest):,} more, {late}.</p>'
    return table(head, rows) + note


def _row(node: NodeHistory, most: float, with_refused: bool) -> str:
    late = f'<td class="num">{decimal(node.typical, 0 if node.typical % 1 == 0 else 1)}'
    if node.typical:
        late += f'<i class="bar" style="--c:var(--slow);--v:{node.typical / most:.3f}"></i>'
    cells = [_number(node.answers), _number(len(node.lateness)), late + "</td>"]
    cells.append(_number(node.longest))
    if with_refused:
        cells.append(_number(node.refused))
    cells.append(f'<td class="num">{_state(node)}</td>')
    return f'<tr><th scope="row">{text(node.name)}</th>{"".join(cells)}</tr>'


def _number(value: int) -> str:
    return f'<td class="num">{whole(value) if value else _quiet("0")}</td>'


def _state(node: NodeHistory) -> str:
    if node.working is None:
        return _quiet("answered")
    if not node.working:
        return "at work"
    return f"at work for {node.working:,} round{'s' * (node.working != 1)}"


def _quiet(said: str) -> str:
    return f'<span class="quiet">{said}</span>'
