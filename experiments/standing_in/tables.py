"""The tables of the study, from its result files.

    python experiments/standing_in/tables.py digits
    python experiments/standing_in/tables.py mnist_one_class --seeds 10

A cell is `end / late (all)`: the accuracy in the affected class over the last fifth of the
rounds, the same from one staleness after the first answer on, and the accuracy over all
classes over the last fifth; means over the seeds that a method has.
"""

import argparse
import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, stdev

RESULTS = Path(__file__).parent / "results"
ROWS = {
    "no_delay": "`no_delay`",
    "no_delay, earlier": "`no_delay`, τ rounds earlier",
    "joins_late": "`no_delay`, slow clients join in round τ",
    "unweighted": "`unweighted`",
    "weighted": "`weighted`",
    "first_order": "`first_order`",
    "w_pred": "`w_pred`",
    "asyn_tiers": "`asyn_tiers`",
    "memory": "`memory`",
    "arrivals_only": "`convert`, `stand_in = false`",
    "convert": "**`convert`**",
    "sparse_95": "`convert`, 95 % sparse",
    "convert_before": "`convert` of before",
    "sparse_95_before": "the same, 95 % sparse",
    "four_updates_before": "the same, fitted to 4 updates",
    "one_update": "`convert`, fitted to one update",
}
Curve = list[list[float]]


def figures(curve: Curve, staleness: int, earlier: int = 0) -> tuple[float, float, float]:
    """Return the affected class at the end and late, and all classes at the end.

    Args:
        curve: Rows of round, accuracy and affected accuracy.
        staleness: Rounds from the first answer to the beginning of the late rounds.
        earlier: Take all windows this many rounds earlier.

    Example:
        >>> curve = [[r, 0.5, 0.1 * r] for r in range(1, 11)]
        >>> [round(value, 2) for value in figures(curve, staleness=2)]
        [0.95, 0.75, 0.5]
        >>> round(figures(curve, staleness=2, earlier=2)[0], 2)
        0.75
    """
    last = curve[-1][0]

    def mean(after: float, column: int) -> float:
        rows = [row for row in curve if after - earlier < row[0] <= last - earlier]
        return fmean(row[column] for row in rows)

    return mean(0.8 * last, 2), mean(2 * staleness, 2), mean(0.8 * last, 1)


def cell(curves: dict[str, Curve], staleness: int, earlier: int = 0) -> str:
    """Return one cell; a dash where there is no run."""
    if not curves:
        return "–"
    found = [figures(curve, staleness, earlier) for curve in curves.values()]
    end, late, both = (fmean(values) for values in zip(*found, strict=True))
    spread = f" ± {stdev(f[0] for f in found):.3f}" if len(found) > 1 else ""
    return f"{end:.3f}{spread} / {late:.3f} ({both:.3f})"


def ends(scenario: str, staleness: str, *labels: str) -> list[float]:
    """Return the affected accuracy at the end of some methods."""
    return [means(scenario, staleness, label)[0] for label in labels]


def ends_table(staleness: str, *names: str) -> str:
    """Return the affected accuracy at the end: a column for each scenario, a row for each method.

    Args:
        staleness: The value of τ.
        names: Scenarios and methods, each with the text that the table shows: `label=text`.
    """
    return _by_scenario(staleness, names, lambda end, late, both: f"{end:.3f}")


def ends_and_all(staleness: str, *names: str) -> str:
    """Return the same with the accuracy over all classes in brackets."""
    return _by_scenario(staleness, names, lambda end, late, both: f"{end:.3f} ({both:.3f})")


def _by_scenario(
    staleness: str, names: Sequence[str], shown: Callable[[float, float, float], str]
) -> str:
    pairs = [name.split("=", 1) for name in names]
    columns = [pair for pair in pairs if pair[0] not in ROWS]
    lines = ["| | " + " | ".join(text for _, text in columns) + " |"]
    lines.append("| --- |" + " --- |" * len(columns))
    for label, text in (pair for pair in pairs if pair[0] in ROWS):
        cells = [shown(*means(scenario, staleness, label)) for scenario, _ in columns]
        lines.append(f"| {text} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def means(scenario: str, staleness: str, label: str) -> tuple[float, float, float]:
    """Return a method's figures, means over its seeds."""
    tau, earlier = int(staleness), 0
    if label == "no_delay, earlier":
        label, earlier = "no_delay", tau
    curves = runs_of(scenario)[tau][label]
    found = [figures(curve, tau, earlier) for curve in curves.values()]
    end, late, both = (fmean(values) for values in zip(*found, strict=True))
    return end, late, both


@functools.cache
def runs_of(scenario: str) -> dict[int, dict[str, dict[str, Curve]]]:
    """Return the curves of a scenario by staleness, method and seed."""
    files = sorted(RESULTS.glob(f"{scenario}_[0-9]*.json"), key=_staleness)
    runs = {_staleness(path): json.loads(path.read_text())["runs"] for path in files}
    # Without delay the staleness does not matter: some runs have it only once.
    without = next((found["no_delay"] for found in runs.values() if "no_delay" in found), {})
    return {tau: {"no_delay": without, **found} for tau, found in runs.items()}


def chosen(curves: dict[str, Curve], seeds: set[str] | None) -> dict[str, Curve]:
    """Return the curves of some seeds; of all if none are named."""
    return {seed: curve for seed, curve in curves.items() if seeds is None or seed in seeds}


def table(scenario: str, seeds: set[str] | None = None) -> str:
    """Return the Markdown table of a scenario."""
    runs = runs_of(scenario)
    lines = [
        "| | " + " | ".join(f"τ = {tau}" for tau in runs) + " |",
        "| --- |" + " --- |" * len(runs),
    ]
    run = {label for found in runs.values() for label in found}
    for label, name in ROWS.items():
        own = label.split(",")[0]
        if own not in run:
            continue
        cells = [
            cell(chosen(found.get(own, {}), seeds), tau, tau if own != label else 0)
            for tau, found in runs.items()
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _staleness(path: Path) -> int:
    return int(path.stem.rsplit("_", 1)[1])


def main() -> None:
    """Print the table of a scenario."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("scenario")
    parser.add_argument("--seeds", help="only these; all if not given")
    known = parser.parse_args()
    print(table(known.scenario, {*known.seeds.split(",")} if known.seeds else None))


if __name__ == "__main__":
    main()
