"""Run the zoo: how far off are converted updates, cell by cell?

    python experiments/zoo/run.py --device cuda --jobs 8 --data DIR --seeds 10,11,12 \
        --out experiments/zoo/results/h200.jsonl
    python experiments/zoo/run.py --quick --jobs 2 --data DIR --out quick.jsonl

The file has a line about the run, then one for every cell and seed, written when it is done:
a run that is cut off leaves what it has. `tables.py` makes the tables from such files.
A machine with a copy of the tree names its commit in the environment variable `COMMIT`.
Settings that are not among the methods here are tried by `--try LABEL KEY=VALUE ...`.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cells import CELLS, Cell, read_cells
from jobs import COLUMNS, Job, run_all
from methods import METHODS, tried

from unstale.methods import Compensator
from unstale.run_folder.provenance import provenance, require_clean


def about(arguments: argparse.Namespace, methods: Mapping[str, Compensator]) -> dict[str, Any]:
    """Return the first line of the file: what made it."""
    found = provenance([int(seed) for seed in arguments.seeds.split(",")], arguments.device)
    found["hardware"]["threads"] = arguments.threads  # of the processes that compute
    return {
        **found,
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
    return parser


def main() -> None:
    """Run what the command line asks for."""
    arguments = options().parse_args()
    methods = {label: METHODS[label] for label in arguments.methods.split(",") if label}
    methods |= {label: tried(settings) for label, *settings in arguments.tries}
    require_clean(arguments.out)
    first = about(arguments, methods)
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
