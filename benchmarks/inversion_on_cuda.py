"""Time one iteration of the inversion on a GPU: run eagerly, and replayed from its CUDA graph.

    PYTHONPATH=src python benchmarks/inversion_on_cuda.py [--quick] [--json FILE]

1 and 10 clients with 32, 64 and 225 samples, and 10 clients with four updates each. Data are
random; the model is a LeNet of 21,840 weights and training is 5 full-batch steps. That both
ways give the same numbers is checked by `make test-gpu`.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

import unstale as us
from unstale import models
from unstale.inversion import InputSpec, Inversion
from unstale.inversion.descent import Descent, SolverState, initial_state
from unstale.inversion.surrogate import STARTS
from unstale.inversion.target import Target, target_of
from unstale.inversion.unroll import batched
from unstale.run_folder.provenance import provenance, require_clean, write_result
from unstale.seeding import generator
from unstale.training.cuda_graphs import GraphCache

INPUTS = InputSpec(shape=(1, 28, 28), classes=10, low=0.0, high=1.0)
LOCAL = us.LocalSpec(lr=0.01, momentum=0.5, steps=5)
SETTINGS = Inversion(sparsity=0, iterations=400)
HEADER = "samples clients updates | eager ms  recorded ms  ms/client | recording s  peak GiB"


def update(model: nn.Module, seed: int, examples: int = 100) -> Target:
    """Return a random client's update from random weights."""
    rng = generator(seed, "client")
    base = {
        n: (torch.randn(p.shape, generator=rng) * (0.05 if p.ndim > 1 else 0.01)).to(p.device)
        for n, p in model.named_parameters()
    }
    x = torch.rand(examples, *INPUTS.shape, generator=rng).cuda()
    y = torch.randint(0, 10, (examples,), generator=rng).cuda()
    return target_of(base, us.local_update(model, base, x, y, LOCAL), tuple(base), 0.0)


def problem(model: nn.Module, clients: int, samples: int, updates: int) -> SolverState:
    """Return the state before the first iteration of a random problem."""
    return initial_state(
        model,
        [[update(model, c * updates + u) for u in range(updates)] for c in range(clients)],
        [STARTS["grey"](INPUTS, samples, 0.1, generator(c, "start")) for c in range(clients)],
        local=LOCAL,
        inputs=INPUTS,
        settings=SETTINGS,
        warm=False,
    )


def timed(advance: Callable[[], None], repeats: int) -> float:
    """Return milliseconds a call."""
    advance()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(repeats):
        advance()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / repeats * 1e3


def row_of(model: nn.Module, samples: int, clients: int, updates: int) -> dict[str, float | None]:
    """Time one size of problem; recorded figures are None where there is no graph."""
    descent = Descent(batched(model, LOCAL), INPUTS, SETTINGS, samples)
    state = problem(model, clients, samples, updates)
    row: dict[str, float | None] = {"samples": samples, "clients": clients, "updates": updates}
    row["eager_ms"] = timed(lambda: descent(state), 5)
    state = problem(model, clients, samples, updates)
    torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    with GraphCache(kept_per_model=1).borrow(model, "benchmark", descent, state) as graph:
        row["recording_s"] = time.perf_counter() - began
        row["recorded_ms"] = None if graph is None else timed(graph.replay, 50)
    row["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    return row


def main() -> int:
    """Print the table, and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="64 samples only")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("No CUDA device is visible: nothing was timed.")
        return 2
    require_clean(options.json)
    about = provenance([], "cuda")
    torch.backends.cudnn.deterministic = True  # as conversions have it
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n{HEADER}")
    model = models.build("lenet", INPUTS.shape, INPUTS.classes).cuda()
    sizes = [(n, c, 1) for n in ((64,) if options.quick else (32, 64, 225)) for c in (1, 10)]
    rows = []
    for samples, clients, updates in [*sizes, (64, 10, 4)]:
        row = row_of(model, samples, clients, updates)
        rows.append(row)
        recorded = row["recorded_ms"]
        figures = (
            "   no graph" if recorded is None else f"{recorded:11.2f}  {recorded / clients:9.2f}"
        )
        print(
            f"{samples:7d} {clients:7d} {updates:7d} | {row['eager_ms']:8.1f}  {figures} | "
            f"{row['recording_s']:11.2f}  {row['peak_gib']:8.2f}",
            flush=True,
        )
    if options.json:
        write_result(options.json, about, {"rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
