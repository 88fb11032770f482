"""Fit: how well surrogates explain the updates, and what that takes."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from unstale.report.context import Context, Section
from unstale.report.fates import converting
from unstale.report.fitting import conversions, iterations_taken, loss_reached, mean_curve
from unstale.report.markup import chart, decimal, method_tag, series_data, table, whole
from unstale.report.records import Round
from unstale.report.series import Series, over_rounds

# Key, title, what is shown, and whether on a logarithmic axis.
OVER_ROUNDS: tuple[tuple[str, str, str, Callable[[Round], float | None], bool], ...] = (
    ("fit_loss", "Loss reached", "loss, relative to the update", loss_reached, True),
    ("fit_iterations", "Iterations", "iterations of a conversion", iterations_taken, False),
)


def curve_lines(context: Context) -> list[tuple[str, Series, bool]]:
    """Return loss curves: method label, line, whether of warm starts."""
    return [
        (method.label, line, warm)
        for method in converting(context.run)
        for warm in (False, True)
        if (line := mean_curve(context.run.rounds.get(method.label, {}), warm=warm))
    ]


def build(context: Context) -> Section | None:
    """Build the section; None where conversions were not told one by one."""
    run = context.run
    charts = []
    curves = curve_lines(context)
    if curves:
        lines: list[dict[str, Any]] = []
        for label, line, warm in curves:
            data = series_data(label, line, log=True)
            lines.append({**data, "variant": "warm start"} if warm else data)
        spec = {
            "kind": "lines",
            "small": True,
            "title": "Loss while fitting",
            "desc": "Loss of the fit by iteration, for first conversions of a client and for "
            "later ones, which begin with the surrogate of the one before.",
            "x": {
                "label": "iteration",
                "max": max(line.x[-1] for _, line, _ in curves),
                "log": True,
            },
            "y": {"label": "loss, relative to the update", "log": True},
            "series": lines,
        }
        charts.append(chart(context, "fit_curves", spec))
    for key, title, what, pick, log in OVER_ROUNDS:
        lines = [
            series_data(method.label, line, digits=4 if log else 1, log=log)
            for method in converting(run)
            if (line := over_rounds(run.rounds.get(method.label, {}), pick))
        ]
        lines = [line for line in lines if line["x"]]
        if lines:
            spec = {
                "kind": "lines",
                "small": True,
                "title": title,
                "desc": f"{title} by round: the mean over a round's conversions.",
                "x": {"label": "round", "max": run.last_round},
                "y": {"label": what, "log": True}
                if log
                else {"label": what, "min": 0, "digits": 1},
                "series": lines,
            }
            charts.append(chart(context, key, spec))
    if not charts:
        return None
    note = (
        '<p class="note">A surrogate is fitted until training on it changes the model as the '
        "client's update did; the loss is what is missing, as a share of the update. "
        "Solid in the first chart: a client's first conversion, which begins with nothing. "
        "Dotted: a later one, which begins with the client's last surrogate.</p>"
    )
    return Section(
        "fit", "Fit", f'<div class="grid">{"".join(charts)}</div>{note}{_table(context)}'
    )


def _table(context: Context) -> str:
    rows = []
    for method in converting(context.run):
        found = conversions(context.run.rounds.get(method.label, {}))
        for warm, name in ((False, "from nothing"), (True, "warm")):
            chosen = [one for one in found if one.warm is warm]
            if not chosen:
                continue
            losses = [one.loss for one in chosen if one.loss is not None]
            cells = (
                whole(len(chosen)),
                whole(statistics.median(one.iterations for one in chosen)),
                decimal(_median(losses), 4),
            )
            rows.append(
                f'<tr><th scope="row">{method_tag(context, method.label)}</th><td>{name}</td>'
                + "".join(f'<td class="num">{cell}</td>' for cell in cells)
                + "</tr>"
            )
    head = ['<th scope="col">Method</th>', '<th scope="col">Start</th>']
    head += [
        f'<th scope="col" class="num">{title}<small>{note}</small></th>'
        for title, note in (
            ("Conversions", "all seeds"),
            ("Iterations", "median"),
            ("Loss reached", "median"),
        )
    ]
    return table(head, rows) if rows else ""


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None
