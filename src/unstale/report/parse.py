"""Turns the JSON of config, scenario and summary into records, checking every value.

A value of the wrong kind raises `DamageError` with what should hold and what was
found; `read.py` adds the file and the line. A key that is missing is no fault
where a run of an older or unfinished kind may lack it.
"""

from unstale.report.records import Client, Method, MethodSummary, Scenario
from unstale.run_folder.schema.checked import DamageError, count, items, mapping, number
from unstale.run_folder.summary import COUNTS, FAULTS, FIGURES, MEANS, TIMES

METRICS = (*FIGURES, *TIMES, *FAULTS, *COUNTS, *MEANS)


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
    return Scenario(
        count(fields.get("seed"), "seed"),
        classes,
        affected,
        clients,
        str(fields.get("test_set") or ""),
    )


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
        seeds=len(items(fields.get("per_seed"), "per_seed")),
        knows_time="held_from" in fields,
    )
