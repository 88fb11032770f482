"""Small pieces of HTML. Everything that is not markup goes through `text` or `embed`."""

import base64
import html
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from unstale.report.context import Context
from unstale.report.series import Series


def text(value: object) -> str:
    """Escape `value` for use between tags and inside quoted attributes.

    Example:
        >>> text('<b title="x">')
        '&lt;b title=&quot;x&quot;&gt;'
    """
    return html.escape(str(value), quote=True)


def embed(data: object) -> str:
    r"""Write `data` as JSON that cannot end the script element it stands in.

    Example:
        >>> embed({"label": "</script>"})
        '{"label":"\\u003c/script\\u003e"}'
    """
    written = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for char in "<>&":
        written = written.replace(char, f"\\u{ord(char):04x}")
    return written


def short(value: float, digits: int = 4) -> float | int:
    """Round for the page's JSON: fewer bytes, and no digits that nobody measured."""
    rounded = round(value, digits)
    return int(rounded) if rounded == int(rounded) else rounded


def significant(value: float, digits: int = 4) -> float:
    """Round to so many digits that count, however small the number.

    Example:
        >>> significant(0.000123456)
        0.0001235
    """
    return float(f"{value:.{digits}g}")


def series_data(
    label: str, series: Series, *, digits: int = 4, log: bool = False
) -> dict[str, Any]:
    """Return a line in the form that `chart_lines.js` draws.

    Args:
        label: The method that it belongs to.
        series: Its points.
        digits: After the point, or, for a logarithmic axis, those that count.
        log: Whether it goes on a logarithmic axis, where 0 has no place: points whose
            mean is not above 0 are left out.
    """
    points = list(zip(series.x, series.mean, series.low, series.high, strict=True))
    if log:
        points = [(x, m, low if low > 0 else m / 10, high) for x, m, low, high in points if m > 0]
    rounded = significant if log else short
    data: dict[str, Any] = {
        "method": label,
        "x": [x for x, *_ in points],
        "mean": [rounded(mean, digits) for _, mean, _, _ in points],
    }
    if series.low != series.high:
        data["low"] = [rounded(low, digits) for _, _, low, _ in points]
        data["high"] = [rounded(high, digits) for *_, high in points]
    return data


def chart(context: Context, key: str, spec: Mapping[str, Any], caption: str = "") -> str:
    """Return a figure that the page's script fills from `spec`.

    Args:
        context: Holds the PNG, under `key`, that stands in where scripts are off.
        key: The figure's name, unique on the page.
        spec: What to draw: `kind`, `title`, `desc` and what that kind needs; `small` or `headed`
            ones show their title, others leave it to the section.
        caption: HTML below the drawing.
    """
    png = context.plots.get(key)
    fallback = ""
    if png is not None:
        uri = "data:image/png;base64," + base64.b64encode(png).decode("ascii")
        fallback = f'<noscript><img src="{uri}" alt="{text(spec["desc"])}"></noscript>'
    small = " small" if spec.get("small") else ""
    named = spec.get("small") or spec.get("headed")
    heading = f"<h3>{text(spec['title'])}</h3>" if named else ""
    return (
        f'<figure class="chart{small}" id="chart-{text(key)}" data-kind="{text(spec["kind"])}">'
        f'{heading}<div class="controls"></div><div class="plot"></div>{fallback}'
        + (f"<figcaption>{caption}</figcaption>" if caption else "")
        + f'<script type="application/json">{embed(spec)}</script></figure>'
    )


def method_tag(context: Context, label: str) -> str:
    """Return a method's label with a sample of its line."""
    style = context.styles[label]
    dash = f' stroke-dasharray="{style.dash}"' if style.dash else ""
    # A short label keeps to one line with its sample; a long one may break.
    kind = "method long" if len(label) > 24 else "method"
    return (
        f'<span class="{kind}" style="{style.css}">'
        f'<svg class="swatch" viewBox="0 0 20 8" aria-hidden="true">'
        f'<line x1="1" x2="19" y1="4" y2="4"{dash}/></svg>{text(label)}</span>'
    )


def table(head: Sequence[str], rows: Sequence[str], *, kind: str = "") -> str:
    """Return a table that scrolls within itself where the screen is narrow."""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Table">'
        f'<table class="{kind}"><thead><tr>{"".join(head)}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def decimal(value: float | None, digits: int = 2) -> str:
    """Return a number for people, a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.{digits}f}"


def whole(value: float | None) -> str:
    """Return a count for people: digits only where a mean over seeds has them."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:,.1f}"
