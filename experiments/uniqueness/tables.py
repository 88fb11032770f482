"""The tables of the page, from its result files."""

import json
from pathlib import Path
from statistics import fmean

RESULTS = Path(__file__).parent / "results"
FILES = {
    "digits": ("digits.json",),
    "mnist": tuple(f"mnist_seed_{seed}.json" for seed in (0, 1, 2)),
    "nearest": ("digits_nearest.json",),
}
PAPER = {"20": 0.746, "100": 0.892, "200": 0.937, "800": 0.945, "all": 0.93}
"""The share of right decisions that the paper has, from a round on."""
KEYS = ("accuracy", "of_unique", "of_common")
FACTORS = {
    ("ratio", "1.0"): "its mean distance > 1.00 × (the paper)",
    ("ratio", "1.02"): "its mean distance > 1.02 ×",
    ("ratio", "1.04"): "its mean distance > 1.04 ×",
    ("ratio", "1.08"): "its mean distance > 1.08 ×",
    ("nearest", "0.5"): "its distance to the **nearest** fresh update > 0.5 ×",
}


def decisions(name: str) -> str:
    """Return the shares of right decisions by round, beside the paper's."""
    found = _read(name)
    lines = ["| round | right | of the unique | of the common | paper |", "| --- |" + " --- |" * 4]
    for start, paper in PAPER.items():
        rows = [one["rounds"][start] for one in found if start in one["rounds"]]
        cells = ["not run", "", ""]
        if rows:
            cells = [_percent(fmean(row[key] for row in rows)) for key in KEYS]
            seeds = [f"{100 * row['accuracy']:.1f}" for row in rows]
            cells[0] += f" ({', '.join(seeds)})" if len(seeds) > 1 else ""
        when = "all rounds" if start == "all" else start
        lines.append(f"| {when} | {' | '.join(cells)} | {_percent(paper)} |")
    return "\n".join(lines)


def factors() -> str:
    """Return what other factors, and the nearest update, would have decided."""
    lines = ["| an update is unique if | digits | MNIST |", "| --- | --- | --- |"]
    for (rule, factor), text in FACTORS.items():
        cells = []
        for name in ("digits", "mnist"):
            rows = [one["thresholds"][rule][factor] for one in _read(name)]
            shares = [_percent(fmean(row[key] for row in rows)) for key in KEYS]
            shares[0] = f"**{shares[0]}**" if rule == "nearest" else shares[0]
            cells.append(", ".join(shares))
        lines.append(f"| {text} | {' | '.join(cells)} |")
    return "\n".join(lines)


def share(name: str, rule: str, factor: str) -> float:
    """Return the share of right decisions with one factor."""
    return fmean(one["thresholds"][rule][factor]["accuracy"] for one in _read(name))


def right(name: str) -> list[int]:
    """Return how many decisions were right, and of how many."""
    rows = [one["rounds"]["all"] for one in _read(name)]
    every = [row["decisions"] for row in rows]
    return [round(sum(row["accuracy"] * row["decisions"] for row in rows)), sum(every)]


def _read(name: str) -> list[dict]:
    """Return one entry for each file; files of several seeds are one."""
    found = [json.loads((RESULTS / file).read_text()) for file in FILES[name]]
    return [next(v for key, v in one.items() if key != "about") for one in found]


def _percent(value: float) -> str:
    whole = value in (1.0, PAPER["all"])  # the paper gives no more digits
    return f"{100 * value:.0f} %" if whole else f"{100 * value:.1f} %"
