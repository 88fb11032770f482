"""What standing in for absent clients costs, beside a warm conversion in the same process.

    python benchmarks/stand_ins.py [--models lenet,resnet18] [--device cuda] [--out FILE]

Times rounds of the method `convert`: one stand-in; ten in one round; one warm conversion; and
the conversion with ten stand-ins beside it. Data are random, five full-batch steps, and the
conversion takes exactly 12 iterations, as a good warm fit does. The rounds take turns, and
each figure is the least of several turns: seconds of CPU time on a CPU, which other work on
the machine hardly changes, and of wall time on a GPU.
"""

import argparse
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import unstale as us
from unstale import models
from unstale.inversion.surrogate import STARTS
from unstale.methods.conversion import ConvertAll, client_memory
from unstale.params import Params, to_device
from unstale.run_folder.provenance import provenance, require_clean, write_result
from unstale.seeding import generator
from unstale.updates import State, TrainingTools

LOCAL = us.LocalSpec(lr=0.01, momentum=0.5, epochs=5)
ITERATIONS = 12
SETTINGS = us.Inversion(
    warm_iterations=ITERATIONS, warm_min_iterations=ITERATIONS, patience=0, restart_loss=0.0,
    max_loss=1e9, history=1,
)  # fmt: skip
ABSENT = tuple(f"c{i}" for i in range(10))
BACK = "late"
NOW = 30


@dataclass(frozen=True)
class Size:
    """A model, its inputs, and the examples of each client; half of them make a surrogate."""

    model: str
    shape: tuple[int, ...]
    examples: int


def size_of(model: str, device: torch.device) -> Size:
    """Return the size to time; ResNet-18 takes minutes a round on a CPU, so few samples there."""
    if model == "lenet":
        return Size(model, (1, 28, 28), 256)
    return Size(model, (3, 32, 32), 256 if device.type == "cuda" else 32)


class World:
    """A server's view with eleven known clients, one of which has sent its next update."""

    def __init__(self, size: Size, device: torch.device) -> None:
        self.inputs = us.InputSpec(size.shape, 10, 0.0, 1.0)
        self.model = models.build(size.model, size.shape, 10, seed=0).to(device)
        self.method = ConvertAll(SETTINGS, max_growth=0)
        self.past = {v: self._weights(v, device) for v in (0, 20, NOW)}
        self.samples = SETTINGS.num_samples(size.examples)
        entries = {client: self._entry(client, size.examples, device) for client in (*ABSENT, BACK)}
        self.state: State = {"clients": entries, "bases": {}}
        self.update = self._update(BACK, 20, size.examples, device)

    def _weights(self, version: int, device: torch.device) -> Params:
        rng = generator(version, "weights")
        return to_device(
            {
                n: p.detach().cpu() + 0.005 * torch.randn(p.shape, generator=rng)
                for n, p in self.model.named_parameters()
            },
            device,
        )

    def _update(self, client: str, version: int, examples: int, device: torch.device) -> us.Update:
        rng = generator(0, client)
        x = torch.rand(examples, *self.inputs.shape, generator=rng).to(device)
        y = torch.randint(0, 10, (examples,), generator=rng).to(device)
        delta = us.local_update(self.model, self.past[version], x, y, LOCAL)
        return us.Update(client, version, delta, examples)

    def _entry(self, client: str, examples: int, device: torch.device) -> dict[str, Any]:
        surrogate = STARTS["grey"](self.inputs, self.samples, 0.1, generator(1, client))
        surrogate = us.Surrogate(surrogate.x.to(device), surrogate.y_logits.to(device))
        update = self._update(client, 0, examples, device)
        return client_memory.remember({}, update, surrogate, now=NOW)

    def round(self, absent: tuple[str, ...] = (), back: bool = False) -> us.Outcome:
        """Apply the method to a round at today's version."""
        view = us.ServerView(
            NOW, self.past[NOW], self.past.get, LOCAL, generator(0, "server"),
            frozenset(self.past), TrainingTools(self.model, self.inputs), absent,
        )  # fmt: skip
        outcome = self.method.apply([self.update] if back else [], self.state, view)
        assert len(outcome.updates) == len(absent) + back
        if back:
            detail = next(note.detail for note in outcome.notes if note.kind == "converted")
            assert (detail["start"], detail["iterations"]) == ("warm", ITERATIONS)
        return outcome


def clocked(call: Callable[[], Any], device: torch.device) -> float:
    """Return the seconds of a call: CPU time, or wall time where a GPU works."""
    if device.type != "cuda":
        began = time.process_time()
        call()
        return time.process_time() - began
    torch.cuda.synchronize()
    began = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - began


def row_of(size: Size, device: torch.device, turns: int) -> dict[str, Any]:
    """Time the rounds of one model in turns."""
    world = World(size, device)
    rounds: dict[str, Callable[[], Any]] = {
        "one": lambda: world.round(ABSENT[:1]),
        "ten": lambda: world.round(ABSENT),
        "conversion": lambda: world.round(back=True),
        "conversion_and_ten": lambda: world.round(ABSENT, back=True),
    }
    if device.type == "cuda":  # record graphs, choose kernels
        for call in rounds.values():
            call()
    taken: dict[str, list[float]] = {name: [] for name in rounds}
    for _ in range(turns):
        for name, call in rounds.items():
            taken[name].append(clocked(call, device))
    least = {name: min(seconds) for name, seconds in taken.items()}
    return {
        "model": size.model,
        "samples": world.samples,
        "seconds": least,
        "turns": taken,
        "one_of_conversion": least["one"] / least["conversion"],
        "ten_of_conversion": least["ten"] / least["conversion"],
        "ten_of_one": least["ten"] / least["one"],
    }


def printed(row: dict[str, Any]) -> str:
    """Return a row of the table."""
    s = row["seconds"]
    return (
        f"| {row['model']} | {row['samples']} | {s['one']:.4g} | {s['ten']:.4g} "
        f"| {row['ten_of_one']:.2g} | {s['conversion']:.4g} | {s['conversion_and_ten']:.4g} "
        f"| 1/{1 / row['one_of_conversion']:.3g} | 1/{1 / row['ten_of_conversion']:.3g} |"
    )


HEADER = """\
| model | samples | one stand-in, s | ten, s | ten/one | conversion, s | with ten beside it, s \
| one/conversion | ten/conversion |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def main() -> None:
    """Print the table, and write the figures as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="lenet,resnet18", help="names, with commas between")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--turns", type=int, default=5, help="each figure is the least of these")
    parser.add_argument("--out", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    require_clean(options.out)
    device = torch.device(options.device)
    about = provenance([], device)
    if device.type == "cuda":
        torch.backends.cudnn.deterministic = True  # as conversions have it
    name = torch.cuda.get_device_name() if device.type == "cuda" else platform.machine()
    clock = "wall time" if device.type == "cuda" else "CPU time"
    print(f"{name}, {os.cpu_count()} CPU cores, PyTorch {torch.__version__}, {clock}\n{HEADER}")
    rows = []
    for model in options.models.split(","):
        rows.append(row_of(size_of(model, device), device, options.turns))
        print(printed(rows[-1]), flush=True)
    if options.out:
        body = {"clock": clock, "iterations": ITERATIONS, "rows": rows}
        write_result(options.out, about, body)


if __name__ == "__main__":
    main()
