"""The study's tables with every measure side by side, from the result files that are kept.

    <!-- made by: tables.py singles lenet_mnist -->
    <!-- made by: tables.py clients lenet_mnist_clients -->

A cell is the mean over seeds.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

RESULTS = Path(__file__).parent / "results"
ATTACKS = {"inversion": "our inversion", "matching": "gradient matching"}
MEASURES = {
    "mse": ("MSE", 4),
    "psnr": ("PSNR", 1),
    "ssim": ("SSIM", 2),
    "lpips": ("LPIPS", 3),
    "identified": ("found", 2),
    "recognised": ("class", 2),
}
MEMBERS = {"auc": ("AUC", 2), "true_positives": ("TPR", 2)}
NOTHING = "Not run yet."
BASELINES = ("random noise", "class mean", "held-out sample")
Row = Mapping[str, Any]


def kept(name: str) -> list[dict[str, Any]]:
    """Return the files of a set, one for each seed."""
    found = sorted(RESULTS.glob(f"{name}_[0-9]*.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in found]


def mean(rows: Sequence[Row], key: str) -> float | None:
    """Return the mean of what could be measured.

    Example:
        >>> mean([{"mse": 1.0}, {"mse": None}, {}], "mse")
        1.0
    """
    known = [row[key] for row in rows if row.get(key) is not None]
    return fmean(known) if known else None


def cells(rows: Sequence[Row], measures: Mapping[str, tuple[str, int]]) -> list[str]:
    """Return the means of some rows for a table.

    Example:
        >>> cells([{"mse": 0.25}, {"mse": 0.75}], {"mse": ("MSE", 1), "psnr": ("PSNR", 1)})
        ['0.5', '–']
    """
    values = [(mean(rows, key), digits) for key, (_, digits) in measures.items()]
    return ["–" if value is None else f"{value:.{digits}f}" for value, digits in values]


def singles(name: str) -> str:
    """Return single samples by attack and protection, baselines last."""
    found = [one["singles"] for one in kept(name)]
    if not found:
        return NOTHING
    measures = {**MEASURES, "label": ("label", 2)}
    lines = _head(["left out", "by"], measures)
    for attack, said in ATTACKS.items():
        for row in (name for name in found[0][attack] if name not in BASELINES):
            lines.append(_line([row, said, *cells([one[attack][row] for one in found], measures)]))
    for row in BASELINES:
        lines.append(_line(["–", row, *cells([one["matching"][row] for one in found], measures)]))
    originals = [one["original"] for one in found]
    return "\n".join([*lines, _line(["–", "*the original*", *cells(originals, measures)])])


def clients(name: str, *epochs: str) -> str:
    """Return whole clients by local epochs, size and attack."""
    found = [row for one in kept(name) for row in one["clients"]]
    if not found:
        return NOTHING
    measures = MEASURES | MEMBERS
    lines = _head(["steps", "samples", "recovered by"], measures)
    keys = dict.fromkeys((row["epochs"], row["samples"], row["by"]) for row in found)
    for key in keys:
        if epochs and str(key[0]) not in epochs:
            continue
        own = [row for row in found if (row["epochs"], row["samples"], row["by"]) == key]
        lines.append(_line([*map(str, key), *cells(own, measures)]))
    return "\n".join(lines)


def by_steps(name: str) -> str:
    """Return how much is found of whole clients, by local steps and size.

    A cell is `found / AUC` by the surrogate, by the attack on the update, and by the best baseline.
    """
    rows = [row for one in kept(name) for row in one["clients"]]
    sizes = list(dict.fromkeys(str(row["samples"]) for row in rows))
    if not sizes:
        return NOTHING
    lines = [_line(["steps", "by", *(f"{size} samples" for size in sizes)])]
    lines.append("| --- |" + " --- |" * (len(sizes) + 1))
    for steps in dict.fromkeys(str(row["epochs"]) for row in rows):
        for by in ("conversion, last", "update alone (SME)", "best baseline"):
            found, auc = (
                of_clients(name, measure, by, steps, *sizes) for measure in ("identified", "auc")
            )
            both = (f"{f:.2f} / {a:.2f}" for f, a in zip(found, auc, strict=True))
            lines.append(_line([steps, by, *both]))
    return "\n".join(lines)


def single(name: str, attack: str, measure: str, *protections: str) -> list[float]:
    """Return one measure of single samples under some protections, or of baselines."""
    found = [one["singles"] for one in kept(name)]
    return [fmean(one[attack][row][measure] for one in found) for row in protections]


def of_clients(name: str, measure: str, by: str, epochs: str, *sizes: str) -> list[float]:
    """Return one measure of whole clients by size; `best baseline` is the largest of these."""
    names = BASELINES if by == "best baseline" else (by,)
    found = [row for one in kept(name) for row in one["clients"]]
    values = []
    for size in sizes:
        means = []
        for one in names:
            wanted = {"epochs": int(epochs), "samples": int(size), "by": one}
            rows = [row for row in found if all(row[k] == v for k, v in wanted.items())]
            means.append(mean(rows, measure) or 0.0)
        values.append(max(means))
    return values


def found_by_steps(name: str, size: str, *steps: str) -> list[float]:
    """Return how much surrogates find of clients of one size, by local steps."""
    return [of_clients(name, "identified", "conversion, last", one, size)[0] for one in steps]


def _head(first: Sequence[str], measures: Mapping[str, tuple[str, int]]) -> list[str]:
    heads = [*first, *(title for title, _ in measures.values())]
    return [_line(heads), "| --- |" + " --- |" * (len(heads) - 1)]


def _line(parts: Sequence[str]) -> str:
    return f"| {' | '.join(parts)} |"
