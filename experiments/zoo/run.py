"""Run the zoo: how far off are converted updates, cell by cell?

    python experiments/zoo/run.py --device cuda --jobs 8 --data DIR --seeds 10,11,12 \
        --out experiments/zoo/results/h200.jsonl
    python experiments/zoo/run.py --quick --jobs 2 --data DIR --out quick.jsonl

The file has a line about the run, then one for every cell and seed, written when it is done:
a run that is cut off leaves what it has. `tables.py` makes the tables from such files.
Settings that are not among the methods here are tried by `--try LABEL KEY=VALUE ...`.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from cells import CELLS, Cell, read_cells
from jobs import COLUMNS, Job, run_all
from methods import METHODS, tried

from unstale.methods import Compensator

HERE = Path(__file__).parent


def commit() -> str:
    """Return the commit of the tree, marked if it is not clean.

    A copy of the tree on a lent machine has no history of its own; there `COMMIT` names it.
    """
    if "COMMIT" in os.environ:
        return os.environ["COMMIT"]
    asked = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    answer = subprocess.run(asked, cwd=HERE, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"


def about(arguments: argparse.Namespace, methods: Mapping[str, Compensator]) -> dict[str, Any]:
    """Return the first line of the file: what made it."""
    device = torch.cuda.get_device_name() if arguments.device != "cpu" else platform.machine()
    words = ["python", "experiments/zoo/run.py", *sys.argv[1:]]
    for option in ("data", "out", "file"):  # where they are on this machine says nothing
        words = [option.upper() if w == str(getattr(arguments, option)) else w for w in words]
    return {
        "command": " ".join(words),
        "commit": commit(),
        "machine": f"torch {torch.__version__}, {device}, {os.cpu_count()} cores",
        "seeds": [int(seed) for seed in arguments.seeds.split(",")],
        "methods": {label: repr(method) for label, method in methods.items()},
        "columns": COLUMNS,
    }


def chosen_cells(arguments: argparse.Namespace) -> list[Cell]:
    """Return the cells that the command line asks for."""
    cells = read_cells(arguments.file)
    if arguments.cells:
        names = arguments.cells.split(",")
        if unknown := [name for name in names if name not in cells]:
            raise SystemExit(f"--cells should be among {', '.join(cells)}. Found {unknown}.")
        return [cells[name] for name in names]
    return [cell for cell in cells.values() if cell.quick or not arguments.quick]


def options() -> argparse.ArgumentParser:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="only the cells for a CPU")
    parser.add_argument("--cells", help="only these, separated by commas")
    parser.add_argument("--methods", default="first_order,default", help=", ".join(METHODS))
    parser.add_argument("--try", nargs="+", action="append", default=[], dest="tries",
                        metavar=("LABEL", "KEY=VALUE"), help="a conversion so set")  # fmt: skip
    parser.add_argument("--seeds", default="10,11,12")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="cells that run at once")
    parser.add_argument("--threads", type=int, default=1, help="threads of each of them")
    parser.add_argument("--data", type=Path, help="the data folder, or a file of parts.py")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    parser.add_argument("--file", type=Path, default=CELLS, help="other cells")
    parser.add_argument("--allow-dirty", action="store_true",
                        help="write to results/ from a tree with changes")  # fmt: skip
    return parser


def main() -> None:
    """Run what the command line asks for."""
    arguments = options().parse_args()
    methods = {label: METHODS[label] for label in arguments.methods.split(",") if label}
    methods |= {label: tried(settings) for label, *settings in arguments.tries}
    first = about(arguments, methods)
    unclean = first["commit"] == "unknown" or first["commit"].endswith("-dirty")
    if unclean and "results" in arguments.out.parts and not arguments.allow_dirty:
        raise SystemExit(
            f"Results should come from a clean commit. Found '{first['commit']}'. "
            "Commit first, or write elsewhere."
        )
    jobs = [
        Job(cell, seed, methods, arguments.data, arguments.device, arguments.threads)
        for seed in first["seeds"]
        for cell in chosen_cells(arguments)
    ]
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with arguments.out.open("w") as file:

        def write(line: dict[str, Any]) -> None:
            file.write(json.dumps(line) + "\n")
            file.flush()
            if "cell" in line:
                print(*(line.get(k, "") for k in ("cell", "seed", "status", "seconds", "reason")))

        write(first)
        run_all(jobs, arguments.jobs, write)


if __name__ == "__main__":
    main()
