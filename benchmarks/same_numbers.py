"""Whether two versions of Unstale give the same numbers, to the bit.

Run the same experiment with each version, then compare the run folders; or replay the
event log of one Flower run with each version, and compare the fingerprints:

    python benchmarks/same_numbers.py runs BEFORE AFTER --rename invert=convert
    python benchmarks/same_numbers.py replay RUN_FOLDER --method convert > after.json

`runs` compares the summary, every line of every round and the final weights. Times are
left out, and so are fields that only one of the two versions writes, which are listed.
`replay` trains again what the nodes of a Flower run sent (the app is `blobs_app` of the
tests) in the order of its event log, in one process, and prints a hash of each version.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

# Wall time, and what says which version of the format a line has.
LEFT_OUT = {"seconds", "step_seconds", "schema"}
# Fields that were renamed: old name -> new name.
RENAMED = {"held": "awaiting_fit"}
FLOWER_TESTS = Path("tests") / "integration" / "flower"


def main() -> int:
    """Compare, say what differs, and return 1 if anything does."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("runs")
    runs.add_argument("before", type=Path)
    runs.add_argument("after", type=Path)
    runs.add_argument("--rename", action="append", default=[], metavar="OLD=NEW")
    again = commands.add_parser("replay")
    again.add_argument("run", type=Path)
    again.add_argument("--method", default="convert")
    again.add_argument("--repository", type=Path, default=Path(__file__).parents[1])
    given = parser.parse_args()
    if given.command == "replay":
        print(json.dumps(replayed(given.run, given.method, given.repository)))
        return 0
    labels = dict(pair.split("=", 1) for pair in given.rename)
    faults = compare(given.before, given.after, labels)
    for fault in faults[:20]:
        print("DIFFERS", fault)
    print(f"{len(faults)} differences" if faults else "the same to the bit")
    return 1 if faults else 0


def compare(before: Path, after: Path, labels: dict[str, str]) -> list[str]:
    """Return what differs between two run folders; `labels` maps old labels to new ones."""
    old = json.loads((before / "summary.json").read_text())
    new = json.loads((after / "summary.json").read_text())
    old["methods"] = {labels.get(label, label): v for label, v in old["methods"].items()}
    faults = differences(old, new, "summary")
    lines = weights = 0
    only: set[str] = set()
    for path in sorted((before / "rounds").rglob("*.jsonl")):
        label, seed = path.parent.name, path.stem
        mine = after / "rounds" / labels.get(label, label) / path.name
        pairs = list(zip(read_lines(path), read_lines(mine), strict=True))
        lines += len(pairs)
        for one, two in pairs:
            one["method"] = labels.get(label, label)
            only |= set(one) ^ set(two)
            shared = {key: (one[key], two[key]) for key in set(one) & set(two)}
            for key, (a, b) in shared.items():
                faults += differences(a, b, f"{label} {seed} round {one['round']} {key}")
        last = Path("checkpoints") / label / seed / "final.safetensors"
        renamed = Path("checkpoints") / labels.get(label, label) / seed / "final.safetensors"
        weights += 1
        if digest(before / last) != digest(after / renamed):
            faults.append(f"weights of {label} {seed}")
    print(f"{before.name}: {lines} lines, {weights} final models; only in one: {sorted(only)}")
    return faults


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return a file's lines without what may differ."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        {RENAMED.get(key, key): value for key, value in record.items() if key not in LEFT_OUT}
        for record in records
    ]


def differences(a: Any, b: Any, where: str) -> list[str]:
    """Return the places where two JSON values differ, numbers compared exactly."""
    if isinstance(a, dict) and isinstance(b, dict):
        keys = sorted({*a, *b})
        return [d for k in keys for d in differences(a.get(k), b.get(k), f"{where}.{k}")]
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [d for i, (x, y) in enumerate(zip(a, b)) for d in differences(x, y, f"{where}.{i}")]  # noqa: B905
    return [] if a == b else [f"{where}: {a!r} and {b!r}"]


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def replayed(run: Path, method: str, repository: Path) -> dict[str, Any]:
    """Return the hash of every version that a Flower run's events make, and its accuracy."""
    tests = repository / FLOWER_TESTS
    sys.path[:0] = [str(tests), str(tests / "blobs_app"), str(tests / "probing_app")]
    from records import Records
    from replay import replay, schedule_of

    schedule = schedule_of(Records(run, run))
    # Nodes in the order of their ids' first appearance; the slow one is the third partition.
    nodes = sorted({node for made in schedule for node, _ in made.updates})
    late = {node: max(v - b for v, made in enumerate(schedule)
                      for n, b in made.updates if n == node)
            for node in nodes}  # fmt: skip
    ordered = sorted(nodes, key=lambda node: (late[node], node))
    versions, accuracy = replay(schedule, {node: i for i, node in enumerate(ordered)}, method)
    return {"versions": versions, "accuracy": accuracy}


if __name__ == "__main__":
    sys.exit(main())
