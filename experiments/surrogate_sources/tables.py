"""The tables of the study: mean errors by way and staleness.

python experiments/surrogate_sources/tables.py results.json ...
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

Row = dict  # one line of a results file
DISTANCES = {"error": "cosine distance", "l1": "relative L1 error"}

CLIENTS = {"one_class": "one class each", "dirichlet": "mixes, α = 0.1"}
WAYS = {
    "stale": "the stale update",
    "convert": "`convert`",
    "convert, no residual": "the same without residual",
}
PAPER = {"stale": "0.52", "convert, no residual": "0.32", "generator": "0.86"}
"""The paper's Table 16, which names neither clients nor staleness."""


def read(path: Path) -> list[Row]:
    """Return the rows of a result file."""
    return json.loads(path.read_text(encoding="utf-8"))["rows"]


def mean_and_spread(rows: Sequence[Row], distance: str) -> str:
    """Return the mean of the seeds' means, and their standard deviation where there are two.

    Example:
        >>> rows = [{"seed": 0, "l1": 0.5}, {"seed": 0, "l1": 0.7}, {"seed": 1, "l1": 0.8}]
        >>> mean_and_spread(rows, "l1")
        '0.700 ±0.141'
    """
    by_seed: dict[int, list[float]] = {}
    for row in rows:
        if row[distance] is not None:
            by_seed.setdefault(row["seed"], []).append(row[distance])
    if not by_seed:
        return "-"
    means = [fmean(values) for values in by_seed.values()]
    return f"{fmean(means):.3f}" + (f" ±{stdev(means):.3f}" if len(means) > 1 else "")


def errors(rows: Sequence[Row]) -> str:
    """Return a table for each distance: a line per setting and way, a column per staleness.

    The last column counts updates that were used as they came, since nothing could be made.
    """
    columns = sorted({row["tau"] for row in rows})
    kinds = list(dict.fromkeys((r["set"], r["scenario"], r["way"]) for r in rows))
    blocks = []
    for distance, words in DISTANCES.items():
        head = "".join(f"{f'τ={tau}':>15}" for tau in columns)
        lines = [words, f"{'set':14}{'clients':11}{'way':34}{head}{'s/each':>9}{'as it came':>12}"]
        for kind in kinds:
            mine = [r for r in rows if (r["set"], r["scenario"], r["way"]) == kind]
            cells = [
                mean_and_spread([r for r in mine if r["tau"] == tau], distance) for tau in columns
            ]
            seconds = fmean(r.get("seconds") or 0 for r in mine)
            kept = sum("fallback" in r.get("kinds", "") for r in mine)
            shown = "".join(f"{cell:>15}" for cell in cells)
            name = f"{kind[0]:14}{kind[1]:11}{kind[2]:34}"
            lines.append(f"{name}{shown}{seconds:9.3f}{kept:12d}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def beside_paper(path: Path, distance: str) -> str:
    """Return a page's table of one distance, with the paper's figures where it has them."""
    rows = read(path)
    columns = sorted({row["tau"] for row in rows})
    heads = ["clients", "estimate", *(f"τ = {tau}" for tau in columns)]
    heads += ["paper"] if distance == "error" else []
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for scenario, way in dict.fromkeys((row["scenario"], row["way"]) for row in rows):
        mine = [row for row in rows if (row["scenario"], row["way"]) == (scenario, way)]
        cells = [CLIENTS[scenario], WAYS.get(way, way)]
        for tau in columns:
            found = mean_and_spread([row for row in mine if row["tau"] == tau], distance)
            cells.append(found.replace("±", "± "))
        cells += [PAPER.get(way, "–")] if distance == "error" else []
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def mean_error(path: Path, scenario: str, tau: str, *ways: str) -> list[float]:
    """Return mean cosine distances, for a page."""
    rows = [r for r in read(path) if (r["scenario"], r["tau"]) == (scenario, int(tau))]
    return [fmean(r["error"] for r in rows if r["way"] == way) for way in ways]


def main() -> None:
    """Print the tables of result files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", type=Path, nargs="+")
    print(errors([row for path in parser.parse_args().files for row in read(path)]))


if __name__ == "__main__":
    main()
