"""Time and memory of one iteration of the inversion where clients train in many steps.

    PYTHONPATH=src python benchmarks/long_recipes.py [--device cuda] [--model resnet18]
        [--clients N] [--examples N ...] [--repeats N] [--json FILE]

Five full-batch steps beside mini-batches of 20 over 5 epochs (30 steps for 120 examples, 115
for 450), by SGD with momentum and by Adam, with both paths, with and without `max_steps`, and
on a GPU in both precisions; all in one process, the best of several. Data are random. On a CPU
the time is CPU time. On a GPU iterations are replayed from their CUDA graph, as in conversions.
"""

import argparse
import dataclasses
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

import unstale as us
from unstale import models
from unstale.inversion import InputSpec, Inversion
from unstale.inversion.arithmetic import PRECISIONS, arithmetic
from unstale.inversion.descent import Descent, SolverState, initial_state
from unstale.inversion.surrogate import start_of
from unstale.inversion.target import target_of
from unstale.inversion.unroll import unroller
from unstale.params import params_of
from unstale.run_folder.provenance import provenance, require_clean, write_result
from unstale.seeding import generator
from unstale.training.cuda_graphs import GraphCache

SHAPES = {"lenet": (1, 28, 28), "resnet18": (3, 32, 32)}
FULL = us.LocalSpec(lr=0.01, momentum=0.5, epochs=5)
BATCHES = us.LocalSpec(lr=0.002, momentum=0.5, epochs=5, batch_size=20)
ADAM = us.LocalSpec(lr=0.0003, optimizer="adam", epochs=5, batch_size=20)
EXACT, ALONG = Inversion(path="exact", max_steps=0), Inversion(path="along", max_steps=0)
# name -> (the clients' recipe, how surrogates are fitted)
WAYS = {
    "full batch, exact": (FULL, EXACT),
    "full batch, along": (FULL, ALONG),
    "batches of 20, exact": (BATCHES, EXACT),
    "batches of 20, along": (BATCHES, ALONG),
    "batches of 20, default": (BATCHES, Inversion()),
    "batches of 20, 20 steps, along": (BATCHES, Inversion(path="along")),
    "batches of 20, 10 steps": (BATCHES, Inversion(max_steps=10)),
    "adam, batches of 20, exact": (ADAM, EXACT),
    "adam, batches of 20, along": (ADAM, ALONG),
}
HEADER = f"{'way':<42}{'examples':>9}{'steps':>6} | {'ms/iter.':>9}{'× full':>7}{'peak MiB':>10}"


class Peak(TorchDispatchMode):
    """The most bytes of what is computed in a block that are alive at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and note what it made."""
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, list | tuple) else (result,):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                self._alive[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        self._alive = {k: v for k, v in self._alive.items() if not v[0].expired()}
        self.bytes = max(self.bytes, sum(size for _, size in self._alive.values()))
        return result


@dataclasses.dataclass
class Row:
    """One way, for clients with so many examples."""

    way: str
    examples: int
    steps: int
    """Local steps of a surrogate."""
    samples: int
    ms: float = float("inf")
    """Milliseconds of one iteration of all clients; the best."""
    peak_mib: float = 0.0
    """The most memory that an iteration takes beside its state; on a GPU of its recording."""


def problem(
    model: nn.Module, inputs: InputSpec, way: tuple[us.LocalSpec, Inversion], examples: int,
    clients: int, device: torch.device,
) -> tuple[Descent, SolverState]:  # fmt: skip
    """Return an iteration and the state before the first."""
    client, settings = way
    local, samples = settings.local_for(client, examples), settings.num_samples(examples)
    base = params_of(model)
    targets, starts = [], []
    for c in range(clients):
        rng = generator(c, "client")
        x = torch.rand(examples, *inputs.shape, generator=rng).to(device)
        y = torch.randint(0, inputs.classes, (examples,), generator=rng).to(device)
        delta = us.local_update(model, base, x, y, dataclasses.replace(client, epochs=1))
        targets.append([target_of(base, delta, tuple(base), 0.0)])
        starts.append(start_of("grey")(inputs, samples, 0.1, generator(c, "start")))
    state = initial_state(
        model, targets, starts, local=local, inputs=inputs, settings=settings, warm=False
    )
    shape = (clients, samples, *inputs.shape)
    descent = Descent(unroller(model, local, shape, device), inputs, settings, samples)
    return descent, state


def on_cpu(timed: Sequence[tuple[Row, Descent, SolverState]], repeats: int) -> None:
    """Note each row's peak and CPU time, all in turns: the machine may be shared."""
    for row, descent, state in timed:
        with Peak() as peak:
            descent(state)
        row.peak_mib = peak.bytes / 2**20
    for _ in range(repeats):
        for row, descent, state in timed:
            began = time.process_time()
            descent(state)
            row.ms = min(row.ms, (time.process_time() - began) * 1e3)


def on_gpu(model: nn.Module, row: Row, descent: Descent, state: SolverState, repeats: int) -> None:
    """Note a row's peak and time, replayed from its CUDA graph, of which it is the only one."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    with GraphCache(kept_per_model=1).borrow(model, row.way, descent, state) as graph:
        if graph is None:  # the reason is in the log
            return
        row.peak_mib = (torch.cuda.max_memory_allocated() - before) / 2**20
        for _ in range(repeats):
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(10):
                graph.replay()
            torch.cuda.synchronize()
            row.ms = min(row.ms, (time.perf_counter() - began) * 1e2)


def rows_of(arguments: argparse.Namespace, device: torch.device) -> Iterator[Row]:
    """Yield all rows, for one number of examples after the other."""
    inputs = InputSpec(SHAPES[arguments.model], 10, low=0.0, high=1.0)
    model = models.build(arguments.model, inputs.shape, inputs.classes, seed=0).to(device)
    gpu = device.type == "cuda"
    for examples, precision in product(arguments.examples, PRECISIONS if gpu else ("float32",)):
        timed = []
        with arithmetic(device, precision):
            for name, way in WAYS.items():
                samples = way[1].num_samples(examples)
                steps = way[1].local_for(way[0], examples).num_steps(samples)
                row = Row(f"{name}, {precision}" if gpu else name, examples, steps, samples)
                one = (row, *problem(model, inputs, way, examples, arguments.clients, device))
                if gpu:
                    on_gpu(model, *one, arguments.repeats)
                    yield row
                else:
                    timed.append(one)
            on_cpu(timed, arguments.repeats)
        yield from (row for row, *_ in timed)


def main() -> int:
    """Print the table, and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", default="lenet", choices=sorted(SHAPES))
    parser.add_argument("--clients", type=int, default=1, help="fitted at once")
    parser.add_argument("--examples", type=int, nargs="+", default=[120, 450])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    arguments = parser.parse_args()
    require_clean(arguments.json)
    device = torch.device(arguments.device)
    about = provenance([], device)
    gpu = device.type == "cuda"
    hardware = torch.cuda.get_device_name() if gpu else platform.processor()
    print(f"{arguments.model}, {arguments.clients} clients; {device} {hardware},")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads\n{HEADER}")
    rows, full = [], 0.0
    for row in rows_of(arguments, device):
        full = row.ms if row.way.startswith("full batch, exact") else full
        rows.append(row)
        print(
            f"{row.way:<42}{row.examples:>9}{row.steps:>6} | {row.ms:>9.2f}"
            f"{row.ms / full if full else float('nan'):>7.2f}{row.peak_mib:>10.1f}",
            flush=True,
        )
    if arguments.json:
        setting = {
            "device": str(device),
            "model": arguments.model,
            "clients": arguments.clients,
            "time": "clock" if gpu else "CPU time",
        }
        body = {"setting": setting, "rows": [dataclasses.asdict(row) for row in rows]}
        write_result(arguments.json, about, body)
    return 0


if __name__ == "__main__":
    sys.exit(main())
