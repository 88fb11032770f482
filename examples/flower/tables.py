"""The table of `compare.py`, from its result files."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

RESULTS = Path(__file__).parent / "results"
ENGINES = {
    "simulator": "Unstale's simulator",
    "simulation": "Flower's simulation",
    "deployment": "Flower, real nodes",
}
KEYS = ("affected", "affected_second_half", "accuracy")
Record = dict[str, Any]


def kept(how: str) -> str:
    """Return the table of all seeds that `results/` has.

    Args:
        how: `simulation` or `deployment`.
    """
    files = sorted(RESULTS.glob(f"{how}-seed-*.json"))
    return table([json.loads(file.read_text(encoding="utf-8")) for file in files])


def table(records: Sequence[Record]) -> str:
    """Return a Markdown table: mean and standard deviation over seeds."""
    rows = [
        "| method | engine | seeds | affected class, last round | second half | all classes |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    every = [cases for record in records for key, cases in record.items() if key in ENGINES]
    names = dict.fromkeys(name for cases in every for name in cases)
    for name in names:
        for engine, text in ENGINES.items():
            ran = [r[engine][name] for r in records if name in r.get(engine, {})]
            if ran:
                cells = [_cell([one[key] for one in ran]) for key in KEYS]
                rows.append(f"| {name} | {text} | {len(ran)} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(values: list[float]) -> str:
    return f"{mean(values):.3f}" + (f" ± {stdev(values):.3f}" if len(values) > 1 else "")
