"""Turns what a run folder tells of conversions into records; see `parse.py`."""

import math
from collections.abc import Iterable

from unstale.report.checked import DamageError, count, items, mapping, number
from unstale.report.conversions import Converted, Measured, SurrogateSamples


def parse_converted(value: object) -> Converted:
    """Return one conversion of a round."""
    fields = mapping(value, "A conversion")
    curve = []
    for point in items(fields.get("curve"), "curve"):
        pair = items(point, "A point of a curve")
        if len(pair) != 2:
            raise DamageError(f"A point of a curve should be a pair. Found {pair!r:.60}.")
        at, loss = count(pair[0], "An iteration"), number(pair[1], "A loss")
        if at > 0 and loss is not None:
            curve.append((at, loss))
    return Converted(
        client=str(fields.get("client", "?")),
        loss=number(fields.get("loss"), "loss"),
        iterations=count(fields.get("iterations"), "iterations"),
        warm=fields.get("start") == "warm",
        curve=tuple(sorted(curve)),
    )


def parse_measured(value: object) -> Measured:
    """Return one comparison of an estimate with late truth."""
    fields = mapping(value, "A measurement")
    return Measured(
        str(fields.get("client", "?")),
        number(fields.get("e1"), "e1"),
        number(fields.get("e2"), "e2"),
    )


def parse_gamma(value: object) -> dict[str, float]:
    """Return the share of estimates by client."""
    found = {client: number(g, "gamma") for client, g in mapping(value, "gamma").items()}
    return {client: gamma for client, gamma in found.items() if gamma is not None}


def parse_reasons(value: object) -> tuple[str, ...]:
    """Return why updates fell back."""
    entries = [mapping(entry, "A fallback") for entry in items(value, "fallbacks")]
    return tuple(str(entry.get("reason") or "no reason given") for entry in entries)


def parse_surrogates(value: object) -> tuple[SurrogateSamples, ...]:
    """Return the clients of a surrogates file."""
    fields = mapping(value, "The file")
    return tuple(_parse_client(entry) for entry in items(fields.get("clients"), "clients"))


def _parse_client(value: object) -> SurrogateSamples:
    fields = mapping(value, "A surrogate")
    shape = tuple(count(n, "shape") for n in items(fields.get("shape"), "shape"))
    if not shape or not all(shape):
        raise DamageError(f"shape should be positive whole numbers. Found {list(shape)!r:.60}.")
    x = tuple(_row(row, "x") for row in items(fields.get("x"), "x"))
    labels = tuple(_row(row, "labels") for row in items(fields.get("labels"), "labels"))
    if any(len(row) != math.prod(shape) for row in x):
        raise DamageError(f"A row of x should have {math.prod(shape)} values, one for each entry.")
    if len(labels) != len(x):
        raise DamageError(f"labels should be {len(x)}, one for each row of x. Found {len(labels)}.")
    low, high = number(fields.get("low"), "low"), number(fields.get("high"), "high")
    return SurrogateSamples(
        client=str(fields.get("client", "?")),
        shape=shape,
        # Without bounds of their own, values are shown between the least and the greatest.
        low=_least(x) if low is None else low,
        high=-_least([-v for v in row] for row in x) if high is None else high,
        samples=max(count(fields.get("samples"), "samples"), len(x)),
        x=x,
        labels=labels,
    )


def _row(value: object, what: str) -> tuple[float, ...]:
    found = [number(entry, what) for entry in items(value, what)]
    if any(entry is None for entry in found):
        raise DamageError(f"{what} should hold finite numbers. Found one that is not.")
    return tuple(entry for entry in found if entry is not None)


def _least(rows: Iterable[Iterable[float]]) -> float:
    return min((value for row in rows for value in row), default=0.0)
