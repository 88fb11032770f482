"""What a run's lines tell of the switch: late findings, and γ from round to round.

unstale run experiments/switching --out RUN_DIR
python experiments/switching/gamma.py RUN_DIR [--method switching]
"""

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from unstale.run_folder.lines import content_of

Record = Mapping[str, Any]


def findings(records: Iterable[Record]) -> dict[str, list[tuple[int, float, float]]]:
    """Return for each client (version at which it was found, E1, E2) in order.

    A line's `round` is the version that its step made, one above the version it began with.

    Example:
        >>> line = {"round": 42, "measured": [{"client": "a", "version": 21, "e1": 0.1, "e2": 0.2}]}
        >>> findings([line])
        {'a': [(41, 0.1, 0.2)]}
    """
    found: dict[str, list[tuple[int, float, float]]] = {}
    for record in records:
        for one in record.get("measured", ()):
            found.setdefault(one["client"], []).append((record["round"] - 1, one["e1"], one["e2"]))
    return found


def gammas(records: Iterable[Record]) -> dict[str, list[tuple[int, float]]]:
    """Return for each client that switched (version, γ) as long as γ moves.

    Example:
        >>> lines = [{"round": r, "gamma": {"a": g}} for r, g in ((6, 0.5), (7, 0.0), (8, 0.0))]
        >>> gammas(lines)
        {'a': [(5, 0.5), (6, 0.0)]}
    """
    found: dict[str, list[tuple[int, float]]] = {}
    for record in records:
        for client, gamma in record.get("gamma", {}).items():
            mine = found.setdefault(client, [])
            if not mine or mine[-1][1] > 0:
                mine.append((record["round"] - 1, gamma))
    return found


def main() -> None:
    """Print both for every seed of a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--method", default="switching")
    arguments = parser.parse_args()
    for path in sorted(arguments.run.rglob("seed-*.jsonl*")):  # of a kept run compressed
        records = [json.loads(line) for line in content_of(path).splitlines()]
        if not records or records[0]["method"] != arguments.method:
            continue
        print(f"seed {records[0]['seed']}")
        for client, found in findings(records).items():
            cells = (f"{v}: {a:.2g} {'>' if a > b else '<'} {b:.2g}" for v, a, b in found)
            print(f"  {client}  E1, E2 at version  " + "   ".join(cells))
        for client, moved in gammas(records).items():
            print(f"  {client}  γ  " + "  ".join(f"{v}: {g:.4g}" for v, g in moved))


if __name__ == "__main__":
    main()
