"""The tables of the study with the paper's figures beside ours, from its result files.

    python experiments/conversion_savings/tables.py FILE.json ...

A comparison leaves out the pairs of which one never came so far; how many are left is shown
where it is not all of them.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

RATES = (0.0, 0.9, 0.95, 0.99)
CHANGED = (0.0, 0.05, 0.2, 0.5)
PAPER_RATES = {0.0: (0.0, 0.28), 0.9: (0.68, 0.29), 0.95: (0.80, 0.31), 0.99: (0.93, 0.57)}
PAPER_CHANGED = {0.0: 0.43, 0.05: 0.21, 0.2: 0.12, 0.5: 0.06}

RATE_KEYS = {
    "to_plateau": "own stop",
    "to_dense": "to the dense fit's distance",
    "to_0.3": "to loss 0.3",
}
WARM_KEYS = {
    "to loss 0.3": ("cold_to_0.3", "warm_to_0.3"),
    "to loss 0.1": ("cold_to_0.1", "warm_to_0.1"),
    "to within 5 % of the cold fit's own loss": ("cold", "warm"),
    "own stop": ("cold_plateau", "warm_plateau"),
}
Pair = tuple[float | None, float | None]


def read(path: Path) -> list[dict]:
    """Return the rows of a result file."""
    return json.loads(path.read_text(encoding="utf-8"))["rows"]


def saved(pairs: Sequence[Pair]) -> tuple[float, float, float, int]:
    """Return mean iterations of both, the share that the second saves, and the pairs.

    Example:
        >>> saved([(40, 30), (20, 15), (9, None)])
        (30.0, 22.5, 0.25, 2)
    """
    both = [(a, b) for a, b in pairs if a is not None and b is not None]
    first, second = fmean(a for a, _ in both), fmean(b for _, b in both)
    return first, second, 1.0 - second / first, len(both)


def sparsification(path: Path) -> str:
    """Return iterations by sparsification rate, and what is saved against rate 0."""
    rows = read(path)
    heads = [f"{_set(rows)}, rate", *RATE_KEYS.values(), "error", "paper: saved", "paper: error"]
    lines = _heading(heads)
    for rate in RATES:
        mine = _at(rows, "rate", rate)
        cells = [_rate_cell(rows, rate, key) for key in RATE_KEYS]
        share, error = PAPER_RATES[rate]
        cells += [f"{fmean(r['error'] for r in mine):.3f}", _percent(share), f"{error}"]
        lines.append(_line([_percent(rate) if rate else "0", *cells]))
    return "\n".join(lines)


def warm_start(path: Path) -> str:
    """Return iterations cold and warm, by the share of the data that has changed."""
    rows = read(path)
    lines = _heading([f"{_set(rows)}, data changed", *WARM_KEYS, "paper: saved"])
    for changed in CHANGED:
        mine = _at(rows, "changed", changed)
        cells = [_warm_cell(mine, *keys) for keys in WARM_KEYS.values()]
        lines.append(_line([_percent(changed), *cells, _percent(PAPER_CHANGED[changed])]))
    return "\n".join(lines)


def errors(*paths: Path) -> str:
    """Return the errors of cold and warm conversions, beside the stale updates'."""
    heads = ["data changed"]
    found = [read(path) for path in paths]
    for rows in found:
        heads += [f"{_set(rows)}: error cold", "warm", "stale"]
    lines = _heading(heads)
    for changed in CHANGED:
        means = [error for rows in found for error in _errors(rows, changed)]
        lines.append(_line([_percent(changed), *(f"{error:.3f}" for error in means)]))
    return "\n".join(lines)


def savings(path: Path, table: str, key: str) -> list[float]:
    """Return the shares saved in one column: rates above 0, or data changed."""
    rows = read(path)
    if table == "rate":
        return [saved(_rate_pairs(rows, rate, key))[2] for rate in RATES[1:]]
    keys = WARM_KEYS[key]
    return [saved(_pairs(_at(rows, "changed", c), *keys))[2] for c in CHANGED]


def least_and_most(*paths: Path) -> list[float]:
    """Return the least and the greatest share that a warm start saves to a loss of 0.1."""
    found = [share for path in paths for share in savings(path, "warm", "to loss 0.1")]
    return [min(found), max(found)]


def error_at(path: Path, *rates: str) -> list[float]:
    """Return the errors at some rates; at `stale` that of the stale update."""
    rows = read(path)
    return [
        fmean(r["stale_error"] for r in _at(rows, "rate", 0.0))
        if rate == "stale"
        else fmean(r["error"] for r in _at(rows, "rate", float(rate)))
        for rate in rates
    ]


def _rate_pairs(rows: Sequence[dict], rate: float, key: str) -> list[Pair]:
    both = zip(_at(rows, "rate", 0.0), _at(rows, "rate", rate), strict=True)
    return [(a[key], b[key]) for a, b in both]


def _rate_cell(rows: Sequence[dict], rate: float, key: str) -> str:
    pairs = _rate_pairs(rows, rate, key)
    _, needed, share, count = saved(pairs)
    if not rate:
        return f"{needed:.0f}"
    of = f"; {count} of {len(pairs)} got there" if count < len(pairs) else ""
    return f"{needed:.0f} ({_percent(share)}{of})"


def _warm_cell(rows: Sequence[dict], cold: str, warm: str) -> str:
    first, second, share, count = saved(_pairs(rows, cold, warm))
    return f"{first:.0f} → {second:.0f}: {_percent(share)} ({count})"


def _pairs(rows: Sequence[dict], cold: str, warm: str) -> list[Pair]:
    return [(row[cold], row[warm]) for row in rows]


def _errors(rows: Sequence[dict], changed: float) -> list[float]:
    mine = _at(rows, "changed", changed)
    return [fmean(r[key] for r in mine) for key in ("cold_error", "warm_error", "stale_error")]


def _at(rows: Sequence[dict], key: str, value: float) -> list[dict]:
    return [row for row in rows if row.get(key) == value]


def _set(rows: Sequence[dict]) -> str:
    return {"mnist": "MNIST", "mnist_mlp": "MNIST, MLP"}.get(rows[0]["set"], rows[0]["set"])


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %".replace("-", "−")


def _heading(cells: Sequence[str]) -> list[str]:
    return [_line(cells), _line(["---"] * len(cells))]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print the tables of result files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    for path in parser.parse_args().files:
        print(f"{sparsification(path)}\n\n{warm_start(path)}\n\n{errors(path)}\n")


if __name__ == "__main__":
    main()
