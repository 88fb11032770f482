"""Accuracy by class: a table of methods by classes, coloured, affected classes marked."""

import statistics

from unstale.report.context import Context, Section
from unstale.report.markup import decimal, method_tag, table, text
from unstale.report.records import Run


def class_accuracy(run: Run, label: str) -> list[float | None]:
    """Return a method's accuracy by class: the mean over its last fifth of rounds and its seeds."""
    seeds: dict[int, list[float]] = {}
    width = 0
    for rounds in run.counted(label).values():
        found: dict[int, list[float]] = {}
        for record in rounds:
            if record.class_accuracy is None or record.number <= rounds[-1].number * 4 / 5:
                continue
            width = max(width, len(record.class_accuracy))
            for position, value in enumerate(record.class_accuracy):
                if value is not None:
                    found.setdefault(position, []).append(value)
        for position, values in found.items():
            seeds.setdefault(position, []).append(statistics.fmean(values))
    return [statistics.fmean(seeds[c]) if c in seeds else None for c in range(width)]


def class_names(run: Run, width: int) -> list[str]:
    """Return the names of the classes, or their positions where no scenario was written."""
    return [run.class_name(position) for position in range(width)]


def build(context: Context) -> Section | None:
    """Build the table; None where no class was evaluated yet."""
    run = context.run
    found = {m.label: row for m in run.methods if (row := class_accuracy(run, m.label))}
    if not found:
        return None
    names = class_names(run, max(len(row) for row in found.values()))
    affected = run.affected
    head = ['<th scope="col">Method</th>']
    # Affected classes first: they are what the page is about, and all a phone has room for.
    order = sorted(range(len(names)), key=lambda c: (c not in affected, c))
    for position in order:
        kind = "num affected" if position in affected else "num"
        mark = '<span class="mark" title="affected class">◆</span> ' if position in affected else ""
        head.append(f'<th scope="col" class="{kind}">{mark}{text(names[position])}</th>')
    rows = []
    for method in run.methods:
        if method.label not in found:
            continue
        row = found[method.label] + [None] * (len(names) - len(found[method.label]))
        cells = [_cell(row[position], position in affected) for position in order]
        kind = ' class="oracle"' if method.is_oracle else ""
        name = method_tag(context, method.label)
        rows.append(f'<tr{kind}><th scope="row">{name}</th>{"".join(cells)}</tr>')
    patterns = {scenario.affected for scenario in run.scenarios.values()}
    marked = (
        ' <span class="mark">◆</span> marks a class whose data sits on slow clients'
        + (" under at least one seed" if len(patterns) > 1 else "")
        + "."
    )
    over = "" if len(run.seeds) == 1 else " and over seeds"
    note = (
        f'<p class="note">Mean over the last fifth of the rounds{over}.'
        f"{marked if affected else ''}</p>"
    )
    return Section("classes", "Accuracy by class", table(head, rows, kind="heat") + note)


def _cell(value: float | None, affected: bool) -> str:
    kind = "num affected" if affected else "num"
    if value is None:
        return f'<td class="{kind}">–</td>'
    return f'<td class="{kind}" style="--v:{min(max(value, 0), 1):.3f}">{decimal(value)}</td>'
