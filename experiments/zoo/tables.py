"""The tables of the zoo, from result files of `run.py`.

    python experiments/zoo/tables.py experiments/zoo/results/*.jsonl

Errors are distances from the true fresh update. A conversion is a client's first, or in a
run: the mean of the last three arrivals. In both a cell's error is the mean over its late
clients and seeds, and a ratio is to the same mean of the stale updates. Files are merged; of
a cell and seed that is in several, the last counts.
"""

import argparse
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from figures import Result, is_when, mean, read, results

from unstale.run_folder.provenance import in_words

BIG = 20
"""The staleness from which the aim for conversions in a run holds."""
FIRST_AIM, RUN_AIM, WORST_AIM = 1 / 2, 1 / 3, 1.05


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table.

    Example:
        >>> print(table(["cell", "τ"], [["a", "5"]]))
        | cell | τ |
        | --- | --- |
        | a | 5 |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def small(value: float, digits: int = 2) -> str:
    """Return a figure to some digits; a dash where there is none.

    Example:
        >>> small(0.01234), small(float("nan")), small(1234.0, 3)
        ('0.012', '–', '1230')
    """
    if math.isnan(value):
        return "–"
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:.0f}" if abs(rounded) >= 100 else f"{rounded:g}"


def error_table(found: Sequence[Result], methods: Sequence[str]) -> str:
    """Return cosine distances: first and in a run, with the ratio to stale."""
    head = ["cell", "τ", "stale: first / in a run", "trained again: in a run"]
    head += ["half its data: in a run"]
    head += [f"{m}: {when}" for m in methods for when in ("first", "in a run")]

    def cells(one: Result) -> list[str]:
        stale = " / ".join(small(one.error("stale", when)) for when in ("first", "run"))
        known = [_with_ratio(one, label, "run") for label in ("again", "half")]
        return [one.name, str(one.staleness), stale, *known] + [
            _with_ratio(one, m, when) for m in methods for when in ("first", "run")
        ]

    return table(head, map(cells, found))


def _with_ratio(one: Result, label: str, when: str) -> str:
    error = one.error(label, when)
    return "–" if math.isnan(error) else f"{small(error)} ({small(one.ratio(label, when))})"


def distance_table(found: Sequence[Result], methods: Sequence[str]) -> str:
    """Return relative L1, relative L2 and the ratio of norms, in a run."""
    kinds = {"l1": "L1", "l2": "L2", "norms": "norm"}
    columns = ["stale", *methods]
    head = ["cell", "τ", *(f"{m}: {' / '.join(kinds.values())}" for m in columns)]
    return table(
        head,
        (
            [one.name, str(one.staleness)]
            + [" / ".join(small(one.error(m, "run", k)) for k in kinds) for m in columns]
            for one in found
        ),
    )


def cost_table(found: Sequence[Result], methods: Sequence[str]) -> str:
    """Return updates that were not converted, seconds, memory, and the path of each cell."""
    head = ["cell", "weights", "test accuracy: begin → end"]
    head += [f"{m}: not converted; s first / in a run; MB" for m in methods]

    def cells(one: Result) -> list[str]:
        ends = [(line["path"][1]["accuracy"], line["path"][-1]["accuracy"]) for line in one.lines]
        path = " → ".join(small(mean(column)) for column in zip(*ends, strict=True))
        return [one.name, str(one.lines[0]["weights"]), path] + [_cost(one, m) for m in methods]

    return table(head, map(cells, found))


def _cost(one: Result, method: str) -> str:
    rows = [row for row in one.rows if row["method"] == method]
    failed = sum("fallback" in row["kind"] for row in rows)
    seconds = [mean(r["seconds"] for r in rows if is_when(r, when)) for when in ("first", "run")]
    peaks = [row["memory"] for row in rows if row["memory"]]
    memory = f"{max(peaks) / 1e6:.0f}" if peaks else "–"
    return f"{failed} of {len(rows)}; {' / '.join(map(small, seconds))}; {memory}"


def summary(found: Sequence[Result], method: str) -> str:
    """Return how many cells meet the aims, the worst one, and those that are harmed."""
    found = [one for one in found if method in one.methods()]
    late = [one for one in found if one.staleness >= BIG]
    runs = {one.name: one.ratio(method, "run") for one in late}
    firsts = {one.name: one.ratio(method, "first") for one in found}
    worst = {
        f"{one.name} ({when})": one.ratio(method, when)
        for one in found
        for when in ("first", "run")
    }

    def share(ratios: Mapping[str, float], aim: float) -> str:
        good = sum(ratio <= aim for ratio in ratios.values())
        return f"{good} of {len(ratios)}"

    above = [f"{k} {small(v, 3)}" for k, v in worst.items() if not v <= WORST_AIM]
    place = max(worst, key=lambda k: math.inf if math.isnan(worst[k]) else worst[k], default="–")
    return table(
        ["aim", method],
        [
            [f"in a run, τ ≥ {BIG}: at most 1/3 of stale", share(runs, RUN_AIM)],
            ["first: at most 1/2 of stale", share(firsts, FIRST_AIM)],
            ["worst", f"{place} {small(worst.get(place, math.nan), 3)}"],
            [f"above {WORST_AIM} of stale", "; ".join(above) or "none"],
            ["misses in a run", _misses(runs, RUN_AIM)],
            ["misses at first", _misses(firsts, FIRST_AIM)],
        ],
    )


def _misses(ratios: Mapping[str, float], aim: float) -> str:
    missed = {name: ratio for name, ratio in ratios.items() if not ratio <= aim}
    return "; ".join(f"{name} {small(ratio)}" for name, ratio in missed.items()) or "none"


def not_run(lines: Mapping[tuple[str, int], Any]) -> str:
    """Return the cells that were skipped or failed, with the reason."""
    found = [line for line in lines.values() if line["status"] != "done"]
    rows = [[ln["cell"], str(ln["seed"]), ln["status"], ln["reason"][:200]] for ln in found]
    return table(["cell", "seed", "status", "reason"], rows) if rows else "Every cell was run."


def errors(file: Path, methods: str) -> str:
    """Return the table of cosine distances of one file, for a page.

    Args:
        file: What `run.py` wrote.
        methods: Labels, separated by commas.
    """
    return error_table(results(read([file])[1]), methods.split(","))


def costs(file: Path, methods: str) -> str:
    """Return the table of costs of a result file, for a page.

    Args:
        file: The result file.
        methods: Labels, separated by commas.
    """
    return cost_table(results(read([file])[1]), methods.split(","))


def aims(file: Path, method: str) -> str:
    """Return how many cells of one file meet the aims, for a page."""
    return summary(results(read([file])[1]), method)


def missing(file: Path) -> str:
    """Return the cells of one file that were not run, for a page."""
    return not_run(read([file])[1])


def ratios(file: Path, methods: str) -> str:
    """Return ratios to the stale update's cosine distance, first / in a run, for a page."""
    labels = methods.split(",")

    def cells(one: Result) -> list[str]:
        found = ((one.ratio(m, "first"), one.ratio(m, "run")) for m in labels)
        return [one.name, str(one.staleness), *(" / ".join(map(small, pair)) for pair in found)]

    return table(["cell", "τ", *labels], map(cells, results(read([file])[1])))


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--methods", help="only these, separated by commas")
    arguments = parser.parse_args()
    abouts, lines = read(arguments.files)
    found = results(lines)
    every = list(dict.fromkeys(m for one in found for m in one.methods()))
    methods = arguments.methods.split(",") if arguments.methods else every
    converting = [m for m in methods if m != "first_order"]
    for one in abouts:
        machine = one.get("machine") or in_words(one["hardware"])  # the former in earlier files
        print(f"Commit {one['commit']}, {machine}, seeds {one['seeds']}.\n")
    pieces: list[tuple[str, Callable[[], str]]] = [
        ("Cosine distance (ratio to stale)", lambda: error_table(found, methods)),
        ("Other distances, in a run", lambda: distance_table(found, methods)),
        ("Failures and cost", lambda: cost_table(found, converting)),
        *((f"Summary: {m}", lambda m=m: summary(found, m)) for m in converting),
        ("Not run", lambda: not_run(lines)),
    ]
    for title, make in pieces:
        print(f"### {title}\n\n{make()}\n")


if __name__ == "__main__":
    main()
