"""What a conversion costs and how good it is: the default beside the preset `paper_dense`.

A LeNet is trained for 40 rounds on MNIST clients with one class each. Ten clients of
450 samples then send updates from version 20 at version 40 (τ = 20); they are converted
and compared with what the clients would have sent at version 40 (cosine distance).
A warm conversion begins with the surrogate of the client's update from version 10.

    python benchmarks/conversion.py --data DIR [--device cuda] [--quick] [--json FILE]

Where fewer iterations were run than a figure is for, the time is scaled and marked "~".
"""

import argparse
import dataclasses
import math
import platform
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from unstale import LocalSpec, data, models
from unstale.inversion import (
    Conversion,
    InputSpec,
    Inversion,
    Request,
    Surrogate,
    convert_many,
    preset,
)
from unstale.params import add, cosine_distance, params_of, weighted_mean
from unstale.run_folder.provenance import provenance, require_clean, write_result
from unstale.seeding import generator
from unstale.sim import Work, train_cohort

CLIENTS, SAMPLES, TAU = 10, 450, 20
EARLIER, BASE, CURRENT = 10, 20, 40
TRAINED_ON = 100  # samples of each client that the global model is trained on: enough, and quick
PAPER_ITERATIONS = 2000
SIZES = (32, 64, 225, 450)
LOCAL = LocalSpec(lr=0.01, momentum=0.5, epochs=5)


def lenet_flop(samples: int, steps: int) -> float:
    """Return the least operations of one iteration on 28×28 inputs: 2 for each product.

    Each product of a layer costs two more when it is differentiated, one for each of its
    factors. A step has three (outputs, gradient of the weights, gradient of the inputs;
    the first layer needs no third), and the first step's weights are constants. So k
    steps take 9k − 2 times a layer's products, the first layer 6k − 1 times.

    Example:
        >>> round(lenet_flop(64, 5) / 1e9, 2)
        2.39
    """
    first = 24 * 24 * 10 * 25
    others = 8 * 8 * 20 * 250 + 320 * 50 + 50 * 10
    return 2.0 * samples * ((6 * steps - 1) * first + (9 * steps - 2) * others)


def matmul_rate(device: torch.device) -> float:
    """Return the machine's float32 operations a second in a large matrix product."""
    n = 8192 if device.type == "cuda" else 1536
    a = torch.ones(n, n, device=device)
    seconds = min(clocked(lambda: a @ a, device)[1] for _ in range(5))
    return 2 * n**3 / seconds


def clocked(call, device: torch.device) -> tuple[Any, float]:
    """Return what a call gives and its wall seconds, the device's work included."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    result = call()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return result, time.perf_counter() - began


@dataclasses.dataclass(frozen=True)
class Problem:
    """A trained model, and ten clients' updates from two of its versions and from today's."""

    model: torch.nn.Module
    inputs: InputSpec
    versions: dict[int, dict[str, torch.Tensor]]
    updates: dict[int, list[dict[str, torch.Tensor]]]

    def convert(
        self, settings: Inversion, clients: int, version: int, warm: list[Surrogate | None] | None
    ) -> list[Conversion]:
        """Convert the first clients' updates from a version into ones from today."""
        begin = warm or [None] * clients
        requests = [
            Request(self.versions[version], self.updates[version][c], SAMPLES, (), begin[c], c)
            for c in range(clients)
        ]
        return convert_many(
            self.model, requests, current=self.versions[version + TAU], local=LOCAL,
            inputs=self.inputs, settings=settings,
        )  # fmt: skip

    def errors(self, found: list[Conversion]) -> list[float]:
        """Return each client's cosine distance to what it would send today."""
        truth = self.updates[CURRENT]
        return [cosine_distance(f.delta, truth[c]) for c, f in enumerate(found)]

    def stale_error(self) -> float:
        """Return the same for the updates as they came."""
        pairs = zip(self.updates[BASE], self.updates[CURRENT], strict=True)
        return fmean(cosine_distance(stale, truth) for stale, truth in pairs)


def make_problem(root: str | None, device: torch.device) -> Problem:
    """Train the global model and the clients."""
    dataset = data.load("mnist", root)
    model = models.build("lenet", dataset.input_shape, dataset.num_classes, seed=0).to(device)
    members = [torch.nonzero(dataset.y_train == c).flatten()[:SAMPLES] for c in range(CLIENTS)]
    x = [dataset.x_train[m].to(device) for m in members]
    y = [dataset.y_train[m].to(device) for m in members]

    def updates(params: dict[str, torch.Tensor], samples: int) -> list[dict[str, torch.Tensor]]:
        rng = generator(0, "benchmark")  # not used: clients take all samples in every step
        work = [Work(params, a[:samples], b[:samples], rng) for a, b in zip(x, y, strict=True)]
        return train_cohort(model, work, LOCAL)

    versions = {0: params_of(model)}
    for v in range(CURRENT):
        mean = weighted_mean(updates(versions[v], TRAINED_ON), [1.0] * CLIENTS)
        versions[v + 1] = add(versions[v], mean)
    inputs = InputSpec(dataset.input_shape, dataset.num_classes, dataset.low, dataset.high)
    sent = {v: updates(versions[v], SAMPLES) for v in (EARLIER, BASE, CURRENT)}
    return Problem(model, inputs, versions, sent)


def sized(settings: Inversion, samples: int) -> Inversion:
    """Return the settings with surrogates of exactly so many samples."""
    return dataclasses.replace(settings, sample_share=1.0, min_samples=samples, max_samples=samples)


def limited(settings: Inversion, iterations: int | None) -> Inversion:
    """Return the settings for exactly so many iterations, or as they are."""
    if iterations is None:
        return settings
    return dataclasses.replace(
        settings, iterations=iterations, warm_iterations=iterations, patience=0, good_loss=0.0
    )


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table; times are for one client of those at once."""

    way: str
    start: str
    at_once: int
    samples: int
    iterations: float
    """The mean over the clients."""
    first_seconds: float
    """A first call, with the capture of its CUDA graph."""
    seconds: float
    """A later call, the best."""
    scaled: float
    """What times were multiplied by; 1 where they are as measured."""
    error: float | None
    """The mean over the clients; None where too few iterations were run to speak of one."""
    worst: float | None
    """The largest of them."""
    ms_per_iteration: float
    """Of a later call, for all clients at once."""
    arithmetic: float
    """The share of that time which the least operations take at the measured rate."""


def measure(
    problem: Problem, way: str, settings: Inversion, clients: int, rate: float, *,
    warm: list[Surrogate | None] | None = None, run: int | None = None,
    stands_for: int | None = None, repeats: int = 1, has_error: bool = True,
) -> tuple[Row, list[Conversion]]:  # fmt: skip
    """Convert and time.

    Args:
        problem: What is converted.
        way: The row's name.
        settings: How.
        clients: How many at once.
        rate: The machine's operations a second.
        warm: Where to begin; anew when None.
        run: Run exactly so many iterations, not what the settings say.
        stands_for: Scale the times to so many iterations.
        repeats: Later calls, of which the best counts; 0 to take the first one.
        has_error: Whether the result is good enough to have its error reported.
    """
    chosen = dataclasses.replace(limited(settings, run), at_once=clients)
    device = next(iter(problem.versions[0].values())).device
    found, first = clocked(lambda: problem.convert(chosen, clients, BASE, warm), device)
    seconds = first
    for _ in range(repeats):
        found, again = clocked(lambda: problem.convert(chosen, clients, BASE, warm), device)
        seconds = min(seconds, again)
    done = max(f.iterations for f in found)  # all of them ran as long as the last
    scaled = stands_for / done if stands_for else 1.0
    samples = chosen.num_samples(SAMPLES)
    errors = problem.errors(found)
    flop = clients * lenet_flop(samples, LOCAL.num_steps(SAMPLES)) * done
    row = Row(
        way, "cold" if warm is None else "warm", clients, samples,
        stands_for or fmean(f.iterations for f in found),
        (first + (scaled - 1) * seconds) / clients, seconds * scaled / clients, scaled,
        fmean(errors) if has_error else None, max(errors) if has_error else None,
        seconds / done * 1e3, flop / rate / seconds,
    )  # fmt: skip
    return row, found


def line(row: Row) -> str:
    """Return a row as the table prints it."""
    mark = "~" if row.scaled != 1 else ""
    cells = (f"{mark}{row.first_seconds:.3f}", f"{mark}{row.seconds:.3f}")
    error, worst = (f"{e:.4f}" if e is not None else "-" for e in (row.error, row.worst))
    return (
        f"{row.way:<9}{row.start:<6}{row.at_once:>7}{row.samples:>9}{row.iterations:>6.0f}"
        f"{cells[0]:>11}{cells[1]:>11}{error:>9}{worst:>9}{row.ms_per_iteration:>10.2f}{row.arithmetic:>8.1%}"
    )


HEADER = (
    f"{'way':<9}{'start':<6}{'at once':>7}{'samples':>9}{'iter.':>6}{'first, s':>11}"
    f"{'later, s':>11}{'error':>9}{'worst':>9}{'ms/iter.':>10}{'arith.':>8}"
)


def plan(arguments: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Return how much of everything is run: less on a CPU, least with `--quick`."""
    cuda, quick = device.type == "cuda", arguments.quick
    return {
        "paper_iterations": arguments.paper_iterations or (PAPER_ITERATIONS if cuda else 50),
        "probe": 50 if cuda else 2,  # iterations where only time is of interest
        "full_sizes": SIZES if cuda else (32, 64),
        "full_clients": CLIENTS if cuda else (2 if quick else CLIENTS),
        "repeats": 2 if cuda else 0,
    }


def rows_of(
    problem: Problem, rate: float, how: dict[str, Any], settings: Inversion, paper: Inversion
):
    """Yield all rows."""
    few, repeats, probe = how["full_clients"], how["repeats"], how["probe"]
    earlier = problem.convert(settings, few, EARLIER, None)
    warm = [f.surrogate for f in earlier] * math.ceil(CLIENTS / few)
    # 1. The default as it is.
    for clients in (1, CLIENTS):
        for start in (None, warm[:clients]):
            exact = clients <= few
            limit = settings.iterations if start is None else settings.warm_iterations
            yield measure(
                problem, "default", settings, clients, rate, warm=start, repeats=repeats,
                run=None if exact else probe, stands_for=None if exact else limit,
                has_error=exact,
            )[0]  # fmt: skip
    if few not in (1, CLIENTS):  # the error over more than one client
        yield measure(problem, "default", settings, few, rate, warm=warm[:few], repeats=0)[0]
    # 2. The paper's way. It never stops early, so that time is in proportion to iterations.
    run = how["paper_iterations"]
    full = PAPER_ITERATIONS if run != PAPER_ITERATIONS else None
    yield measure(problem, "paper", paper, 1, rate, run=run, stands_for=full, repeats=0)[0]
    yield measure(
        problem, "paper", paper, CLIENTS, rate, run=probe, stands_for=PAPER_ITERATIONS,
        has_error=False, repeats=0,
    )[0]  # fmt: skip
    # 3. Surrogates of other sizes.
    for samples in SIZES:
        for clients in (1, CLIENTS):
            if samples == settings.num_samples(SAMPLES) and few != CLIENTS:
                continue  # it is the default itself, and time is short
            exact = samples in how["full_sizes"] and clients in (1, few)
            yield measure(
                problem, "sized", sized(settings, samples), clients, rate,
                repeats=min(repeats, 1), run=None if exact else probe,
                stands_for=None if exact else settings.iterations,
                has_error=exact,
            )[0]  # fmt: skip


def verdicts(rows: list[Row], device: torch.device) -> dict[str, dict[str, Any]]:
    """Return what was aimed at, what was found, and whether it is met."""

    def find(way: str, start: str, at_once: int) -> Row:
        return next(r for r in rows if (r.way, r.start, r.at_once) == (way, start, at_once))

    warm, cold, paper = (
        find("default", "warm", 1), find("default", "cold", 1), find("paper", "cold", 1)
    )  # fmt: skip
    ten = find("default", "warm", CLIENTS)
    found = {
        "paper / default, cold, seconds": (paper.seconds / cold.seconds, 100, False, "cuda"),
        "paper / default, warm, seconds": (paper.seconds / warm.seconds, 100, False, "cuda"),
        "10 at once / 1, warm, seconds": (10 * ten.seconds / warm.seconds, 3, True, "cuda"),
        "a warm conversion, seconds": (warm.seconds, 2, True, "cpu"),
    }
    return {
        name: {
            "found": value,
            "aim": f"{'≤' if below else '≥'} {bound} on {where}",
            # An aim for the other kind of machine is neither met nor missed here.
            "met": (value <= bound if below else value >= bound) if where == device.type else None,
        }
        for name, (value, bound, below, where) in found.items()
    }


def main() -> None:
    """Print the table, and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="the data root; else UNSTALE_DATA")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true", help="fewer clients on a CPU")
    parser.add_argument("--paper-iterations", type=int, help="2000 on a GPU, 50 on a CPU")
    parser.add_argument("--sparsity", type=float, help="for both; as the presets say if not given")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    require_clean(arguments.json)
    device = torch.device(arguments.device)
    about = provenance([], device)
    began = time.perf_counter()
    changes = {} if arguments.sparsity is None else {"sparsity": arguments.sparsity}
    # Fewer iterations than the preset's own: time is in proportion to them.
    fewer = {"iterations": PAPER_ITERATIONS, "warm_iterations": PAPER_ITERATIONS}
    settings, paper = preset("default", **changes), preset("paper_dense", **fewer, **changes)
    problem, rate = make_problem(arguments.data, device), matmul_rate(device)
    how = plan(arguments, device)
    hardware = torch.cuda.get_device_name() if device.type == "cuda" else platform.processor()
    print(f"LeNet, MNIST, one class per client, {SAMPLES} samples, τ = {TAU}; {device} {hardware},")
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, {rate / 1e9:.0f} GFLOP/s "
        f"in a float32 matrix product; sparsity {settings.sparsity} and {paper.sparsity} (paper)"
    )
    print(f"stale updates as they came: error {problem.stale_error():.4f} over {CLIENTS} clients")
    if how["paper_iterations"] != PAPER_ITERATIONS:
        print(
            f"paper: {how['paper_iterations']} iterations were run; its time is scaled to "
            f"{PAPER_ITERATIONS}, its error is that of {how['paper_iterations']}"
        )
    print(HEADER)
    rows = []
    for row in rows_of(problem, rate, how, settings, paper):
        print(line(row), flush=True)
        rows.append(row)
    found = verdicts(rows, device)
    for name, one in found.items():
        said = {True: ": met", False: ": missed", None: ""}[one["met"]]
        print(f"{name}: {one['found']:.2f} (aim {one['aim']}){said}")
    seconds = time.perf_counter() - began
    print(f"{seconds:.0f} s in all")
    if arguments.json:
        setting = {
            "device": str(device), "matmul_flop_per_second": rate,
            "cudnn_tf32": torch.backends.cudnn.allow_tf32,
            "stale_error": problem.stale_error(), "quick": arguments.quick,
            "paper_iterations_run": how["paper_iterations"], "seconds": seconds,
            "default": dataclasses.asdict(settings), "paper": dataclasses.asdict(paper),
        }  # fmt: skip
        body = {
            "setting": setting, "rows": [dataclasses.asdict(r) for r in rows], "verdicts": found,
        }  # fmt: skip
        write_result(arguments.json, about, body)


if __name__ == "__main__":
    main()
