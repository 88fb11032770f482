"""One cell and seed as a job: its trial, the rows it leaves, and processes for several jobs."""

import multiprocessing
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from cells import Cell, Ready, prepare
from torch.func import functional_call
from torch.nn import functional as F

from unstale.check import Client, Measured, run_trial
from unstale.errors import DataError
from unstale.methods import Compensator, Stateless
from unstale.updates import Outcome, ServerView, State, Update

# One row for every method, client and arrival. Three rows are of no method: `stale`, the update
# as it came; `again`, the client's own one, trained again with other batches where it trains in
# batches; `half`, from half of its samples.
REFERENCES = ("again", "half")
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
            line |= {"status": "skipped", "reason": self._anywhere(str(error))}
        except Exception as error:  # the other cells go on
            traceback.print_exc()
            reason = self._anywhere(f"{type(error).__name__}: {error}")
            line |= {"status": "failed", "reason": reason}
        return {**line, "seconds": round(time.perf_counter() - began, 2)}

    def _anywhere(self, message: str) -> str:
        """Return a message without the folders of this machine."""
        if self.source is not None:
            message = message.replace(str(self.source), "DATA")
        return message.replace(str(Path.home()), "~")

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
        rows = [row_of(one) for one in found]
        rows += [row for one in found if one.label == "path" for row in reference_rows(one)]
        return {"weights": weights, "path": path.found, "rows": rows}


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


def reference_rows(one: Measured) -> list[list[Any]]:
    """Return the rows of what the client's own data would give, in part or with other batches."""
    rows = []
    for label in REFERENCES:
        if (found := getattr(one, label)) is not None:
            errors = [number(getattr(found, f.name)) for f in fields(found)]
            rows.append([label, one.client, one.arrival, *errors, *[None] * (len(COLUMNS) - 7)])
    return rows


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
