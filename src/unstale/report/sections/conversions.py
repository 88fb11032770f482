"""Conversions: what became of the stale updates of each round."""

from unstale.report.context import Context, Section
from unstale.report.fates import FATES, converting, fates_of, reasons
from unstale.report.markup import chart, method_tag, short, table, text

MAX_REASONS = 6
_SAID = {
    "converted": "Converted: turned into the update that the client would send today.",
    "kept": "Not unique: used as it came, since other clients hold the like.",
    "switched": "Switched back: used as it came, since the client's estimates had become worse.",
    "fallback": "Fell back: used as it came, or dropped where the method is told to, for the "
    "reasons below.",
    "other": "Otherwise: used as it came, or treated in another way.",
}


def build(context: Context) -> Section | None:
    """Build the section; None where no method converts."""
    run = context.run
    found = [fates_of(run, method.label) for method in converting(run)]
    found = [fates for fates in found if fates.values]
    if not found:
        return None
    spec = {
        "kind": "stack",
        "title": "Conversions per round",
        "desc": "Rounds from left to right; a column for each, as high as stale updates came, "
        "divided by what became of them.",
        "x": {"label": "round", "max": run.last_round},
        "y": {"label": "stale updates a round" + (", mean over seeds" * (len(run.seeds) > 1))},
        "fates": [
            {"key": key, "name": name}
            for key, name, _ in FATES
            if any(key in fates.values for fates in found)
        ],
        "views": [
            {
                "name": fates.label,
                "x": fates.x,
                "values": {
                    key: [short(value, 3) for value in values]
                    for key, values in fates.values.items()
                },
            }
            for fates in found
        ],
    }
    happened = {key for fates in found for key in fates.values}
    caption = " ".join(said for key, said in _SAID.items() if key in happened)
    body = chart(context, "conversions", spec, caption) + _reasons(context)
    return Section("conversions", "Conversions", body)


def _reasons(context: Context) -> str:
    rows = []
    for method in converting(context.run):
        why = reasons(context.run, method.label)
        for reason, n in why.most_common(MAX_REASONS):
            rows.append(
                f'<tr><th scope="row">{method_tag(context, method.label)}</th>'
                f'<td class="words">{text(reason)}</td><td class="num">{n:,}</td></tr>'
            )
        if len(why) > MAX_REASONS:
            rest = sum(n for _, n in why.most_common()[MAX_REASONS:])
            rows.append(
                f'<tr><th scope="row">{method_tag(context, method.label)}</th>'
                f'<td class="words quiet">{len(why) - MAX_REASONS} more reasons</td>'
                f'<td class="num">{rest:,}</td></tr>'
            )
    if not rows:
        return '<p class="note">No conversion fell back to the stale update.</p>'
    head = [
        '<th scope="col">Method</th>',
        '<th scope="col">Why it fell back</th>',
        '<th scope="col" class="num">Updates<small>all seeds</small></th>',
    ]
    return table(head, rows)
