"""What conversions cost as a server runs them: four updates of each client, warm and cold.

    python benchmarks/conversion_cost.py [--device cuda] [--models lenet resnet18]
        [--repeats N] [--json FILE]

For each model, in one process, the best of several:

- *warm*: a later conversion of one client, and of ten at once;
- *cold*: a client's first one, of a single update;
- *paper*: the preset `paper_dense` at 2,000 iterations, LeNet only; where fewer are run, the time
  is scaled and marked;
- *calibration*: the seconds that `ConvertAll` takes over a run with and without it.

Data are random (LeNet: 450 samples a client, one class each; ResNet-18: 60 of all classes), and
every fit runs as long as its settings allow: how early a fit is good enough depends on the data
(benchmarks/conversion.py). Times are wall seconds on a GPU and CPU seconds otherwise.
"""

import argparse
import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

import unstale as us
from unstale import models
from unstale.check import Client, Trial, run_trial
from unstale.inversion import InputSpec, Inversion, Request, Surrogate, convert_many, preset
from unstale.methods import Calibration, Compensator, ConvertAll
from unstale.params import Params, add, params_of
from unstale.run_folder.provenance import provenance, require_clean, write_result
from unstale.seeding import generator
from unstale.updates import Outcome, ServerView, State, Update

LOCAL = us.LocalSpec(lr=0.01, momentum=0.5, epochs=5)
SHAPES = {"lenet": (1, 28, 28), "resnet18": (3, 32, 32)}
SAMPLES = {"lenet": 450, "resnet18": 60}
CLASSES, HISTORY, AT_ONCE, PAPER_ITERATIONS = 10, 4, 10, 2000


@dataclasses.dataclass(frozen=True)
class Problem:
    """A model, and the updates of one client from its first versions."""

    model: nn.Module
    inputs: InputSpec
    samples: int
    updates: list[tuple[Params, Params]]
    """Base weights and update, oldest first."""
    current: Params

    def convert(self, settings: Inversion, clients: int, warm: Surrogate | None, past: int) -> Any:
        """Convert the newest update, for so many clients that are alike but for their draws."""
        base, delta = self.updates[-1]
        earlier = self.updates[len(self.updates) - 1 - past : -1]
        requests = [Request(base, delta, self.samples, earlier, warm, c) for c in range(clients)]
        return convert_many(
            self.model, requests, current=self.current, local=LOCAL, inputs=self.inputs,
            settings=settings,
        )  # fmt: skip


def client_of(name: str, index: int, device: torch.device) -> Client:
    """Return a client of random data; LeNet's has one class."""
    rng = generator(0, "conversion cost", name, index)
    x = torch.rand(SAMPLES[name], *SHAPES[name], generator=rng)
    if name == "lenet":
        y = torch.full((len(x),), index % CLASSES)
    else:
        y = torch.randint(0, CLASSES, (len(x),), generator=rng)
    return Client(x.to(device), y.to(device))


def make_problem(name: str, device: torch.device) -> Problem:
    """Train a client from a few versions, each made by its own updates."""
    model = models.build(name, SHAPES[name], CLASSES, seed=0).to(device)
    client, params, updates = client_of(name, 0, device), params_of(model), []
    for _ in range(HISTORY):
        delta = us.local_update(model, params, client.x, client.y, LOCAL)
        updates.append((params, delta))
        params = add(params, delta)
    inputs = InputSpec(SHAPES[name], CLASSES, 0.0, 1.0)
    return Problem(model, inputs, SAMPLES[name], updates, params)


def clocked(call: Callable[[], Any], device: torch.device, repeats: int) -> tuple[Any, float]:
    """Return what a call gives and its seconds: the best of some calls after a first one.

    With `repeats` = 0 the first call counts.
    """
    best = float("inf")
    for i in range(repeats + 1):
        began = _now(device)
        found = call()
        seconds = _now(device) - began
        if i or not repeats:
            best = min(best, seconds)
    return found, best


def _now(device: torch.device) -> float:
    if device.type != "cuda":
        return time.process_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()


def as_long_as_allowed(settings: Inversion) -> Inversion:
    """Return settings whose fits neither end early nor are refused."""
    return dataclasses.replace(settings, good_loss=0.0, patience=0, restart_loss=0.0, max_loss=99.0)


def conversions(name: str, device: torch.device, repeats: int) -> dict[str, Any]:
    """Return the seconds of one model's conversions."""
    problem = make_problem(name, device)
    found: dict[str, Any] = {}
    for precision in ("float32", "tf32") if device.type == "cuda" else ("float32",):
        settings = as_long_as_allowed(Inversion(precision=precision))
        first, cold = clocked(lambda s=settings: problem.convert(s, 1, None, 0), device, 0)
        warm = first[0].surrogate
        later, one = clocked(
            lambda s=settings, w=warm: problem.convert(s, 1, w, HISTORY - 1), device, repeats
        )
        row = {
            "samples": len(warm), "cold": cold, "warm": one, "cold_iterations": first[0].iterations,
            "warm_iterations": later[0].iterations,
        }  # fmt: skip
        if name == "lenet":
            _, ten = clocked(
                lambda s=settings, w=warm: problem.convert(s, AT_ONCE, w, HISTORY - 1),
                device, repeats,
            )  # fmt: skip
            row |= {"ten_at_once": ten, "ten_to_one": ten / one}
        found[precision] = row
        print(name, precision, row, flush=True)
    if name == "lenet":
        run = PAPER_ITERATIONS if device.type == "cuda" else 20
        paper = as_long_as_allowed(preset("paper_dense", iterations=run))
        _, seconds = clocked(lambda: problem.convert(paper, 1, None, 0), device, 0)
        seconds *= PAPER_ITERATIONS / run
        found["paper"] = {
            "iterations": PAPER_ITERATIONS, "iterations_run": run, "seconds": seconds,
            "to_warm": seconds / found["float32"]["warm"],
        }  # fmt: skip
        print(name, "paper", found["paper"], flush=True)
    return found


class Timed:
    """A compensator that adds up the seconds of another."""

    def __init__(self, inner: Compensator, device: torch.device) -> None:
        self.inner, self.device, self.seconds = inner, device, 0.0

    @property
    def lookback(self) -> int:
        """As that of the other."""
        return self.inner.lookback

    def init(self) -> State:
        """Return the other's state."""
        return self.inner.init()

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Apply the other one."""
        began = _now(self.device)
        outcome = self.inner.apply(updates, state, view)
        self.seconds += _now(self.device) - began
        return outcome


def calibration(device: torch.device) -> dict[str, Any]:
    """Return what calibration adds to a run of LeNet: four of 14 clients late, ten updates each."""
    model = models.build("lenet", SHAPES["lenet"], CLASSES, seed=0).to(device)
    clients = [client_of("lenet", i, device) for i in range(14)]
    trial = Trial(slow=(0, 1, 2, 3), staleness=20, arrivals=10)
    ways = {
        "with": Timed(ConvertAll(), device),
        "without": Timed(ConvertAll(calibration=Calibration(enabled=False)), device),
    }
    inputs = InputSpec(SHAPES["lenet"], CLASSES, 0.0, 1.0)
    run_trial(model, clients, trial, ways, local=LOCAL, inputs=inputs, start=params_of(model))
    found = {name: way.seconds for name, way in ways.items()}
    return {**found, "ratio": found["with"] / found["without"], "conversions": 40}


def main() -> None:
    """Run and print; with `--json` also write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--models", nargs="+", default=["lenet"], choices=sorted(SHAPES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-calibration", action="store_true", help="leave that part out")
    parser.add_argument("--json", type=Path, help="the file to write")
    arguments = parser.parse_args()
    if arguments.json:
        require_clean(arguments.json)
    device = torch.device(arguments.device)
    found: dict[str, Any] = {
        name: conversions(name, device, arguments.repeats) for name in arguments.models
    }
    if not arguments.no_calibration:
        found["calibration"] = calibration(device)
        print("calibration", found["calibration"], flush=True)
    if arguments.json:
        write_result(arguments.json, provenance([0], device), found)


if __name__ == "__main__":
    main()
