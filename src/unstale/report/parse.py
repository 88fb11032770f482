"""Turns parsed JSON into records, checking every value on the way.

A value of the wrong kind raises `DamageError` with what should hold and what was
found; `read.py` adds the file and the line. A key that is missing is no fault
where a run of an older or unfinished kind may lack it.
"""

from unstale.report.checked import DamageError, count, counts, items, mapping, number
from unstale.report.nodes import parse_nodes
from unstale.report.parse_conversions import (
    parse_converted,
    parse_gamma,
    parse_measured,
    parse_reasons,
)
from unstale.report.records import Client, Method, MethodSummary, Round, Scenario
from unstale.run_folder.figures import FIGURES

METRICS = (*FIGURES, "conversions", "iterations")


def _age(key: str) -> int:
    if not key.isdecimal():
        raise DamageError(f"A staleness should be a whole number of at least 0. Found {key!r:.60}.")
    return int(key)


def parse_round(line: object) -> Round:
    """Return the record of one line of a rounds file."""
    fields = mapping(line, "A round")
    if "round" not in fields:
        raise DamageError("A round should have a 'round' number. Found none.")
    staleness = mapping(fields.get("staleness"), "staleness")
    by_class = fields.get("class_accuracy")
    return Round(
        number=count(fields["round"], "round"),
        accuracy=number(fields.get("accuracy"), "accuracy"),
        affected_accuracy=number(fields.get("affected_accuracy"), "affected_accuracy"),
        class_accuracy=None
        if by_class is None
        else tuple(number(v, "class_accuracy") for v in items(by_class, "class_accuracy")),
        arrivals=count(fields.get("arrivals"), "arrivals"),
        stale=count(fields.get("stale"), "stale"),
        staleness={
            _age(age): n for age, n in counts(staleness.get("counts"), "staleness.counts").items()
        },
        refused=counts(fields.get("refused"), "refused"),
        notes=counts(fields.get("notes"), "notes"),
        conversions=count(fields.get("conversions"), "conversions"),
        iterations=count(fields.get("iterations"), "iterations"),
        converted=tuple(map(parse_converted, items(fields.get("converted"), "converted"))),
        fallbacks=parse_reasons(fields.get("fallbacks")),
        gamma=parse_gamma(fields.get("gamma")),
        measured=tuple(map(parse_measured, items(fields.get("measured"), "measured"))),
        history_bytes=count(mapping(fields.get("history"), "history").get("bytes"), "bytes"),
        seconds=number(fields.get("seconds"), "seconds") or 0.0,
        nodes=parse_nodes(fields.get("nodes")),
        oracle={
            key.removeprefix("oracle/"): found
            for key, value in fields.items()
            if key.startswith("oracle/") and (found := number(value, key)) is not None
        },
    )


def parse_scenario(value: object) -> Scenario:
    """Return the record of a scenario file."""
    fields = mapping(value, "A scenario")
    classes = tuple(str(name) for name in items(fields.get("classes"), "classes"))
    affected = tuple(count(c, "affected") for c in items(fields.get("affected"), "affected"))
    if any(position >= len(classes) for position in affected):
        raise DamageError(
            f"affected should hold positions below {len(classes)}. Found {list(affected)}."
        )
    clients = tuple(
        _parse_client(client, len(classes)) for client in items(fields.get("clients"), "clients")
    )
    return Scenario(count(fields.get("seed"), "seed"), classes, affected, clients)


def _parse_client(value: object, num_classes: int) -> Client:
    fields = mapping(value, "A client")
    histogram = tuple(count(n, "histogram") for n in items(fields.get("histogram"), "histogram"))
    if len(histogram) != num_classes:
        raise DamageError(
            f"A client's histogram should have {num_classes} entries, one for each class. "
            f"Found {len(histogram)}."
        )
    return Client(
        id=str(fields.get("id", "?")),
        histogram=histogram,
        latency=number(fields.get("latency"), "latency") or 0.0,
        slow=bool(fields.get("slow", False)),
    )


def parse_method(value: object) -> Method:
    """Return a method of the config's list."""
    fields = mapping(value, "A method")
    name = str(fields.get("name") or fields.get("label") or "?")
    return Method(label=str(fields.get("label") or name), name=name)


def parse_summary(value: object) -> MethodSummary:
    """Return one method's entry of `summary.json`."""
    fields = mapping(value, "A method's summary")
    spread = mapping(fields.get("spread"), "spread")
    return MethodSummary(
        values={metric: number(fields.get(metric), metric) for metric in METRICS},
        spread={metric: number(spread.get(metric), f"spread.{metric}") for metric in METRICS},
        target_rounds=tuple(
            number(mapping(seed, "per_seed").get("rounds_to_target"), "rounds_to_target")
            for seed in items(fields.get("per_seed"), "per_seed")
        ),
    )
