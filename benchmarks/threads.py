"""One CPU thread beside two: rounds of local training, and fits of a conversion.

For each model, in one process, by turns: the same work with each number of threads, the best and
the median of the turns, and whether both gave the same bits. *Rounds* are ten clients that train
one after the other, as in a round of the simulator; *conversion* is a cold fit of so many
iterations. Data are random. Machines are shared, so only ratios of turns side by side count; the
load of the machine meanwhile is written down.

    python benchmarks/threads.py [--threads 1 2] [--turns 7] [--models digits lenet] [--out FILE]
"""

import argparse
import hashlib
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import unstale as us
from unstale import models
from unstale.experiment.threads import cpu_threads
from unstale.inversion import InputSpec, Inversion, Request, fit_many
from unstale.params import Params, params_of
from unstale.run_folder.provenance import provenance, require_clean, write_result
from unstale.seeding import generator

LOCAL = us.LocalSpec(lr=0.05, momentum=0.5, epochs=5)
CLASSES = 10


@dataclass(frozen=True)
class Case:
    """A model, and how much work a turn is."""

    model: str
    shape: tuple[int, ...]
    samples: int
    clients: int
    iterations: int
    settings: dict[str, Any]


CASES = {
    "digits": Case("digits", (1, 8, 8), 40, 10, 20, {}),
    "lenet": Case("lenet", (1, 28, 28), 450, 10, 4, {}),
    "resnet18": Case("resnet18", (3, 32, 32), 60, 1, 1, {}),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--turns", type=int, default=7, help="turns of each number of threads")
    parser.add_argument("--models", nargs="+", default=["digits", "lenet"], choices=sorted(CASES))
    parser.add_argument("--out", type=Path, help="write what was measured to this file")
    options = parser.parse_args()
    require_clean(options.out)
    about = provenance([0])
    rows = []
    for name in options.models:
        for what, work in works(name).items():
            row = by_turns(work, options.threads, options.turns)
            rows.append({"model": name, "work": what, **row})
            print(rows[-1], flush=True)
    if options.out:
        write_result(options.out, about, {"turns": options.turns, "rows": rows})


def works(name: str) -> dict[str, Callable[[], Params]]:
    """Return a round of local training and a fit; each returns what its bits are compared by."""
    case = CASES[name]
    model = models.build(case.model, case.shape, CLASSES, seed=0, **case.settings)
    rng = generator(0, "threads", name)
    x = torch.rand(case.samples, *case.shape, generator=rng)
    y = torch.randint(0, CLASSES, (case.samples,), generator=rng)
    base = params_of(model)
    with cpu_threads(1):
        delta = us.local_update(model, base, x, y, LOCAL)
    inputs = InputSpec(case.shape, CLASSES, 0.0, 1.0)
    settings = Inversion(
        start="grey", iterations=case.iterations, patience=0, restart_loss=0.0, max_loss=99.0
    )

    def train() -> Params:
        for _ in range(case.clients):
            found = us.local_update(model, base, x, y, LOCAL)
        return found

    def fit() -> Params:
        request = Request(base, delta, len(x))
        (found,) = fit_many(model, [request], local=LOCAL, inputs=inputs, settings=settings)
        return {} if found.surrogate is None else {"x": found.surrogate.x}

    return {"rounds": train, "conversion": fit}


def by_turns(work: Callable[[], Params], threads: list[int], turns: int) -> dict[str, Any]:
    """Return seconds by number of threads, their ratios turn by turn, and the bits."""
    seconds: dict[int, list[float]] = {number: [] for number in threads}
    bits: dict[int, str] = {}
    load = []
    for turn in range(turns + 1):
        # Whoever is first meets another moment than whoever is last: take turns in that, too.
        for number in threads if turn % 2 else threads[::-1]:
            with cpu_threads(number):
                began = time.perf_counter()
                found = work()
                taken = time.perf_counter() - began
            if turn:  # the first turn warms up
                seconds[number].append(taken)
                bits[number] = digest(found)
        load.append(os.getloadavg()[0])
    first = threads[0]
    return {
        "seconds": {
            str(n): {"best": min(s), "median": statistics.median(s)} for n, s in seconds.items()
        },
        "ratio_of_best": {str(n): min(s) / min(seconds[first]) for n, s in seconds.items()},
        "ratio_of_turns": {
            str(n): statistics.median(a / b for a, b in zip(s, seconds[first], strict=True))
            for n, s in seconds.items()
        },
        "longest_ratio": {
            str(n): max(a / b for a, b in zip(s, seconds[first], strict=True))
            for n, s in seconds.items()
        },
        "same_bits": len(set(bits.values())) == 1,
        "load": {"least": min(load), "most": max(load)},
    }


def digest(found: Params) -> str:
    """Return a hash of tensors."""
    joined = hashlib.sha256()
    for name in sorted(found):
        joined.update(found[name].detach().contiguous().numpy().tobytes())
    return joined.hexdigest()


if __name__ == "__main__":
    main()
