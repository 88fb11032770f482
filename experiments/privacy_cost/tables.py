"""The tables and figures of the study, from its result files.

    python experiments/privacy_cost/tables.py results/seed_10.json results/seed_11.json

A cell is the mean over seeds. What could not be measured, because all fits failed, is a dash.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

RESULTS = Path(__file__).parent / "results"
SURROGATES = ("conversion, first", "conversion, last")
UPDATE = "update alone (SME)"
BASELINES = ("random noise", "class mean", "held-out sample")
MEASURES = {
    "mse": ("MSE", 4),
    "psnr": ("PSNR", 1),
    "ssim": ("SSIM", 2),
    "lpips": ("LPIPS", 3),
    "identified": ("found", 2),
    "recognised": ("class", 2),
    "auc": ("AUC", 2),
    "true_positives": ("TPR", 2),
}
Seeds = Sequence[dict[str, Any]]
"""The settings of each seed's file."""


def kept() -> Seeds:
    """Return what all result files hold that are kept, those of one seed together."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(RESULTS.glob("*_[0-9]*.json")):
        own = found.setdefault(path.stem.rpartition("_")[2], {})
        own.update(read([path])[0])
    return list(found.values())


def read(paths: Sequence[Path]) -> Seeds:
    """Return the settings of each file."""
    return [json.loads(path.read_text(encoding="utf-8"))["settings"] for path in paths]


def ordered(seeds: Seeds) -> list[str]:
    """Return the settings: none, then the server's and the clients', the cheapest first."""
    ranks = {"nobody": 0, "server": 1, "client": 2}

    def place(name: str) -> tuple[int, float]:
        return ranks[seeds[0][name]["where"]], -(run(seeds, name, "convert", "affected") or 0.0)

    everywhere = [name for name in seeds[0] if all(name in one for one in seeds)]
    return sorted(everywhere, key=place)


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of what could be measured.

    Example:
        >>> mean([0.5, None, 1.5]), mean([None])
        (1.0, None)
    """
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def run(seeds: Seeds, setting: str, method: str, key: str) -> float | None:
    """Return one figure of the runs of a method under a setting; None if it was not run."""
    return mean([one[setting]["runs"].get(method, {}).get(key) for one in seeds])


def shown(seeds: Seeds, setting: str, size: int | str, by: str, measure: str) -> float | None:
    """Return one measure of the audit; `surrogate` is the better one of first and last."""
    names = SURROGATES if by == "surrogate" else (by,)
    found = []
    for one in seeds:
        rows = one[setting].get("audit", {}).get(str(size), {}).get("rows", {})
        values = [rows[n][measure] for n in names if n in rows and rows[n][measure] is not None]
        found.append(max(values) if values else None)
    return mean(found)


def best_baseline(seeds: Seeds, size: int | str, measure: str) -> float:
    """Return the largest value of a measure among inputs that know the class alone."""
    values = [shown(seeds, "default", size, name, measure) for name in BASELINES]
    return max(value for value in values if value is not None)


def cost_table(seeds: Seeds | None = None) -> str:
    """Return what every setting costs."""
    seeds = kept() if seeds is None else seeds
    head = ["", "accuracy", "affected", "second half", "`no_delay`, affected", "`unweighted`"]
    head += ["converted, stale", "stand-ins", "fallbacks"]
    lines = [_row(head), "| --- |" + " --- |" * (len(head) - 1)]
    for name in ordered(seeds):
        own = [run(seeds, name, "convert", k) for k in ("accuracy", "affected", "affected_mean")]
        own += [run(seeds, name, method, "affected") for method in ("no_delay", "unweighted")]
        errors = [run(seeds, name, "convert", k) for k in ("converted_cosine", "stale_cosine")]
        stand_ins = run(seeds, name, "convert", "stand_in_cosine")
        tried = sum(one[name]["runs"]["convert"]["conversions"] for one in seeds)
        failed = sum(one[name]["runs"]["convert"]["fell_back"] for one in seeds)
        cells = [written(value, 3) for value in own]
        cells += [", ".join(written(value, 3) for value in errors), written(stand_ins, 3)]
        lines.append(_row([name, *cells, f"{failed} of {tried + failed}"]))
    return "\n".join(lines)


def hides_table(seeds: Seeds | None = None) -> str:
    """Return what surrogates, and the update alone, show under every setting."""
    seeds = kept() if seeds is None else seeds
    head = ["", "found, 4 samples", "AUC, 4 samples", "AUC, 40 samples", "class, 40 samples"]
    lines = [_row(head), "| --- |" + " --- |" * (len(head) - 1)]
    columns = (("4", "identified"), ("4", "auc"), ("40", "auc"), ("40", "recognised"))
    for name in ordered(seeds):
        if "audit" not in seeds[0][name]:
            continue
        cells = [
            " / ".join(
                written(shown(seeds, name, size, by, key), 2) for by in ("surrogate", UPDATE)
            )
            for size, key in columns
        ]
        lines.append(_row([name, *cells]))
    best = [written(best_baseline(seeds, size, key), 2) for size, key in columns]
    return "\n".join([*lines, _row(["*best baseline*", *best])])


def sizes_table(seeds: Seeds | None = None) -> str:
    """Return every measure of the default, by client size and by what it was recovered."""
    seeds = kept() if seeds is None else seeds
    head = ["samples", "recovered by", *(title for title, _ in MEASURES.values())]
    lines = [_row(head), "| --- |" + " --- |" * (len(head) - 1)]
    for size, audit in seeds[0]["default"]["audit"].items():
        for by in audit["rows"]:
            cells = [
                written(shown(seeds, "default", size, by, key), digits)
                for key, (_, digits) in MEASURES.items()
            ]
            lines.append(_row([size, by, *cells]))
    return "\n".join(lines)


def epsilons(*settings: str) -> list[float]:
    """Return ε of settings, the largest over seeds."""
    seeds = kept()
    return [max(one[name]["runs"]["convert"]["epsilon"] for one in seeds) for name in settings]


def runs(key: str, method: str, *settings: str) -> list[float]:
    """Return a figure of the runs of a method under settings."""
    seeds = kept()
    return [_there(run(seeds, name, method, key)) for name in settings]


def costs(key: str, *settings: str) -> list[float]:
    """Return how far `convert` is below the default under settings."""
    before, *after = runs(key, "convert", "default", *settings)
    return [before - value for value in after]


def audited(size: str, measure: str, by: str, *settings: str) -> list[float]:
    """Return a measure of the audit under settings, by `surrogate`, `update` or a baseline."""
    seeds = kept()
    by = UPDATE if by == "update" else by
    return [_there(shown(seeds, name, size, by, measure)) for name in settings]


def audited_sizes(measure: str, by: str, *sizes: str) -> list[float]:
    """Return a measure of the default, by client size."""
    return [value for size in sizes for value in audited(size, measure, by, "default")]


def both_costs(setting: str) -> list[float]:
    """Return what a setting costs in the affected class: at the end, and over the second half."""
    return [value for key in ("affected", "affected_mean") for value in costs(key, setting)]


def before_and_after(setting: str) -> list[float]:
    """Return what surrogates of four samples show by default and under a setting: found, AUC."""
    measures = ("identified", "auc")
    return [x for m in measures for x in audited("4", m, "surrogate", "default", setting)]


def first_and_last() -> list[float]:
    """Return how many samples of four are found after a client's first update, and after all."""
    return [x for by in SURROGATES for x in audited("4", "identified", by, "default")]


def errors(setting: str) -> list[float]:
    """Return the error of converted updates under a setting, and that of these as they came."""
    keys = ("converted_cosine", "stale_cosine")
    return [x for key in keys for x in runs(key, "convert", setting)]


def after_and_before(setting: str) -> list[float]:
    """Return the same pairs the other way round."""
    found, was, auc, before = before_and_after(setting)
    return [was, found, before, auc]


def surrogate_shows(setting: str) -> list[float]:
    """Return what surrogates of four samples show under a setting: found, AUC."""
    return [x for m in ("identified", "auc") for x in audited("4", m, "surrogate", setting)]


def shown_by(measure: str, setting: str) -> list[float]:
    """Return a measure at four samples by surrogates, and by the update alone."""
    return [x for by in ("surrogate", "update") for x in audited("4", measure, by, setting)]


def pair(key: str, setting: str) -> list[float]:
    """Return a figure of `convert` and of `no_delay` under a setting."""
    return [x for method in ("convert", "no_delay") for x in runs(key, method, setting)]


def learned(setting: str) -> list[float]:
    """Return the accuracy of `convert` and the affected one of `no_delay` under a setting."""
    return [*runs("accuracy", "convert", setting), *runs("affected", "no_delay", setting)]


def baselines(measure: str, *sizes: str) -> list[float]:
    """Return the best baseline of a measure, by client size."""
    seeds = kept()
    return [best_baseline(seeds, size, measure) for size in sizes]


def written(value: float | None, digits: int) -> str:
    """Return a number for a table, a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def _there(value: float | None) -> float:
    if value is None:
        raise ValueError("a figure should have been measured, and was not")
    return value


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells).strip()} |"


if __name__ == "__main__":
    given = read([Path(word) for word in sys.argv[1:]])
    tables: tuple[Callable[[Seeds | None], str], ...] = (cost_table, hides_table, sizes_table)
    print("\n\n".join(table(given) for table in tables))
