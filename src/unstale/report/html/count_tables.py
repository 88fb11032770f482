"""Tables that count: nodes, what the server did, and how conversions went."""

import statistics
from collections import Counter
from collections.abc import Sequence

from unstale.report.figures.conversions import conversions, converting, reasons
from unstale.report.html.tables import Cell, Column, Row, Table, counted, decimal, whole
from unstale.report.nodes import NodeHistory
from unstale.report.records import Method, Run

MAX_NODES = 30
MAX_REASONS = 6
# Notes that say nothing of what became of an update; tables of their own tell of them.
NO_UPDATES = ("stood_in", "checked", "probed", "calibrated", "other_recipe")


def node_table(nodes: Sequence[NodeHistory], when: str) -> Table:
    """Return who answered and who was late, the latest nodes first; at most `MAX_NODES`."""
    refused = any(node.refused for node in nodes)
    columns = [
        Column("Replies"),
        Column("Late", "of them"),
        Column("Rounds late", "median reply"),
        Column("Longest", "rounds"),
        *([Column("Refused", "replies")] if refused else []),
        Column(when),
    ]
    most = max((node.typical for node in nodes), default=0) or 1
    rows = []
    for node in nodes[:MAX_NODES]:
        bar = f"--c:var(--slow);--v:{node.typical / most:.3f}" if node.typical else ""
        cells = [
            counted(node.answers),
            counted(len(node.lateness)),
            Cell(decimal(node.typical, 0 if node.typical % 1 == 0 else 1), bar=bar),
            counted(node.longest),
            *([counted(node.refused)] if refused else []),
            Cell(_state(node), quiet=node.working is None),
        ]
        rows.append(Row(node.name, tuple(cells), is_method=False))
    return Table("Node", tuple(columns), tuple(rows))


def _state(node: NodeHistory) -> str:
    if node.working is None:
        return "answered"
    if not node.working:
        return "at work"
    return f"at work for {node.working:,} round{'s' * (node.working != 1)}"


def totals_table(run: Run) -> Table:
    """Return how many updates arrived under each method, and what was done with them."""
    rows = {m.label: _totals(run, m) for m in run.methods if run.counted(m.label)}
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    return Table(
        "Updates per seed",
        tuple(Column(name) for name in names),
        tuple(
            Row(label, tuple(counted(row.get(name, 0)) for name in names))
            for label, row in rows.items()
        ),
    )


def _totals(run: Run, method: Method) -> dict[str, float]:
    """Count what became of a method's updates, mean over seeds; what never happened is absent."""
    by_seed = run.counted(method.label)
    found: Counter[str] = Counter()
    for rounds in by_seed.values():
        for record in rounds:
            found["arrived"] += record.arrivals
            found["stale"] += record.stale
            found.update(
                {
                    name.replace("_", " "): n
                    for name, n in record.notes.items()
                    if name not in NO_UPDATES
                }
            )
            found.update(
                {f"refused: {why.replace('_', ' ')}": n for why, n in record.refused.items()}
            )
    return {name: n / len(by_seed) for name, n in found.items() if n or name == "arrived"}


def reasons_table(run: Run) -> Table | None:
    """Return why conversions fell back, the most frequent reasons first; None if none did."""
    rows = []
    for method in converting(run):
        why = reasons(run, method.label)
        for reason, n in why.most_common(MAX_REASONS):
            rows.append(Row(method.label, (Cell(reason, "words"), Cell(f"{n:,}"))))
        if len(why) > MAX_REASONS:
            rest = sum(n for _, n in why.most_common()[MAX_REASONS:])
            more = Cell(f"{len(why) - MAX_REASONS} more reasons", "words quiet")
            rows.append(Row(method.label, (more, Cell(f"{rest:,}"))))
    columns = (Column("Why it fell back", kind=""), Column("Updates", "all seeds"))
    return Table("Method", columns, tuple(rows)) if rows else None


def fit_table(run: Run) -> Table | None:
    """Return the median iterations and loss of fits, first and warm ones apart."""
    rows = []
    for method in converting(run):
        found = conversions(run.rounds.get(method.label, {}))
        for warm, name in ((False, "from nothing"), (True, "warm")):
            chosen = [one for one in found if one.warm is warm]
            if not chosen:
                continue
            losses = [one.loss for one in chosen if one.loss is not None]
            cells = (
                Cell(name, kind=""),
                Cell(whole(len(chosen))),
                Cell(whole(statistics.median(one.iterations for one in chosen))),
                Cell(decimal(_median(losses), 4)),
            )
            rows.append(Row(method.label, cells))
    columns = (
        Column("Start", kind=""),
        Column("Conversions", "all seeds"),
        Column("Iterations", "median"),
        Column("Loss reached", "median"),
    )
    return Table("Method", columns, tuple(rows)) if rows else None


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None
