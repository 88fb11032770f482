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
import multiprocessing
import os
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from cells import CELLS, Cell, Ready, prepare, read_cells
from methods import METHODS, tried
from torch.func import functional_call
from torch.nn import functional as F

from unstale.check import Client, Measured, run_trial
from unstale.errors import DataError
from unstale.methods import Compensator, Stateless
from unstale.updates import Outcome, ServerView, State, Update

HERE = Path(__file__).parent
# One row for every method, client and arrival; `stale` is the update as it came.
COLUMNS = (
    "method", "client", "arrival", "cosine", "l1", "l2", "norms",
    "kind", "reason", "start", "loss", "iterations", "seconds", "memory",
)  # fmt: skip


@dataclass(frozen=True)
class Watch(Stateless):
    """A compensator that changes nothing and measures the model along the path."""

    ready: Ready
    versions: frozenset[int]
    found: list[dict[str, float]]
    """What was measured: version, mean loss on all clients' data, test loss and accuracy."""

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Measure at some versions."""
        if view.version in self.versions:
            clients = self.ready.clients
            whole = Client(torch.cat([c.x for c in clients]), torch.cat([c.y for c in clients]))
            train, _ = self._measure(view, whole)
            test, accuracy = self._measure(view, self.ready.test)
            self.found.append(
                {"version": view.version, "train": train, "test": test, "accuracy": accuracy}
            )
        return Outcome(tuple(updates), state)

    def _measure(self, view: ServerView, on: Client) -> tuple[float, float]:
        """Return mean loss and accuracy, at most 500 samples at once."""
        losses, right = 0.0, 0
        for x, y in zip(on.x.split(500), on.y.split(500), strict=True):
            with torch.no_grad():
                logits = functional_call(self.ready.model, dict(view.params), (x,))
            losses += float(F.cross_entropy(logits, y, reduction="sum"))
            right += int((logits.argmax(1) == y).sum())
        return losses / len(on.x), right / len(on.x)


@dataclass(frozen=True)
class Job:
    """One cell and seed, as a process of its own can be given it."""

    cell: Cell
    seed: int
    methods: Mapping[str, Compensator]
    source: Path | None
    device: str
    threads: int

    def __call__(self) -> dict[str, Any]:
        """Run the cell; what goes wrong is part of the result."""
        torch.set_num_threads(self.threads)
        began = time.perf_counter()
        line: dict[str, Any] = {"cell": self.cell.name, "seed": self.seed}
        line["settings"] = {k: v for k, v in asdict(self.cell).items() if k != "name"}
        try:
            line |= {"status": "done", **self._measured()}
        except DataError as error:
            line |= {"status": "skipped", "reason": str(error)}
        except Exception as error:  # the other cells go on
            traceback.print_exc()
            line |= {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
        return {**line, "seconds": round(time.perf_counter() - began, 2)}

    def _measured(self) -> dict[str, Any]:
        ready = prepare(self.cell, self.seed, self.source, self.device)
        trial = ready.trial
        path = Watch(ready, frozenset({0, trial.begin, trial.versions - 1}), [])
        found = run_trial(
            ready.model,
            ready.clients,
            trial,
            {"path": path, **self.methods},
            local=ready.local,
            inputs=ready.inputs,
            start=ready.start,
        )
        weights = sum(p.numel() for p in ready.start.values())
        return {"weights": weights, "path": path.found, "rows": [row_of(one) for one in found]}


def row_of(one: Measured) -> list[Any]:
    """Return the row of a measurement; what the watch was given is the stale update."""
    stale = one.label == "path"
    errors = one.stale if stale else one.used
    detail = {} if stale else one.detail
    return [
        "stale" if stale else one.label,
        one.client,
        one.arrival,
        *(number(getattr(errors, f.name)) for f in fields(errors)),
        None if stale else " ".join(one.kinds),
        detail.get("reason"),
        detail.get("start"),
        number(detail.get("loss")),
        detail.get("iterations"),
        None if stale else number(one.seconds),
        None if stale else one.memory,
    ]


def number(value: Any) -> float | None:
    """Return a number to five digits, None for none or for one that is not finite.

    Example:
        >>> number(0.123456789), number(float("nan")), number(None)
        (0.12346, None, None)
    """
    if value is None or not abs(value) < float("inf"):
        return None
    return float(f"{value:.5g}")


def isolated(job: Job) -> dict[str, Any]:
    """Run a job in a new process: one that dies, or breaks its GPU context, harms no other."""
    # A GPU cannot be shared with a forked process.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        try:
            return pool.submit(job).result()
        except Exception as error:
            reason = f"the process died: {type(error).__name__}: {error}"
            return {
                "cell": job.cell.name, "seed": job.seed, "status": "failed", "reason": reason,
            }  # fmt: skip


def run_all(jobs: Sequence[Job], at_once: int, write: Callable[[dict[str, Any]], None]) -> None:
    """Run jobs, several at once if asked to, and write each result as soon as it is there."""
    if at_once == 1:
        for job in jobs:
            write(job())
        return
    with ThreadPoolExecutor(at_once) as pool:
        running: list[Future[dict[str, Any]]] = [pool.submit(isolated, job) for job in jobs]
        for future in as_completed(running):
            write(future.result())


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
    for option in ("data", "out"):  # where they are on this machine says nothing
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
