"""Rounds per second of the simulator beside a plain PyTorch loop over clients.

Both train the same ten LeNet clients a round on the same MNIST samples from the
same weights and average the changes; the plain loop is what one writes first: a
`DataLoader` and a `torch.optim.SGD` per client. Rounds of both are interleaved
and the best of several is taken, because the machines are shared.

    python benchmarks/rounds.py --data DIR [--device cuda] [--rounds 10] [--json FILE]
"""

import argparse
import copy
import platform
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from unstale import LocalSpec, Server, data, models
from unstale.run_folder.provenance import provenance, require_clean, write_result
from unstale.sim import Scenario, ScenarioSpec, Simulation
from unstale.sim.cohort import SampledCohort
from unstale.sim.latency import NoLatency
from unstale.sim.partition import DirichletLabels

CLIENTS, PER_ROUND, SAMPLES = 100, 10, 450
RECIPES = {
    "5 full-batch steps": LocalSpec(lr=0.01, momentum=0.5, epochs=5),
    "5 epochs of batches of 32": LocalSpec(lr=0.01, momentum=0.5, epochs=5, batch_size=32),
}


def plain_round(model, scenario, spec, number, device):
    """One FedAvg round as a plain loop; changes `model` in place."""
    start = {n: p.detach().clone() for n, p in model.named_parameters()}
    total = {n: torch.zeros_like(p) for n, p in start.items()}
    asked = scenario.asked(number, set())
    for client in asked:
        index = scenario.examples(client, number)
        samples = TensorDataset(scenario.data.x_train[index], scenario.data.y_train[index])
        local = copy.deepcopy(model)
        loader = DataLoader(samples, batch_size=spec.batch_size or SAMPLES, shuffle=True)
        optimizer = torch.optim.SGD(local.parameters(), lr=spec.lr, momentum=spec.momentum)
        for _ in range(spec.epochs):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(local(x.to(device)), y.to(device)).backward()
                optimizer.step()
        for n, p in local.named_parameters():
            total[n] += (p.detach() - start[n]) / len(asked)
    with torch.no_grad():
        for n, p in model.named_parameters():
            p += total[n]


def timed(run: Callable[[], None], device: torch.device) -> tuple[float, float]:
    """Return wall and CPU seconds of one call."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - wall, time.process_time() - cpu


def compare(dataset, spec: LocalSpec, device: torch.device, rounds: int) -> dict[str, float]:
    """Run both side by side, round by round."""
    settings = ScenarioSpec(
        DirichletLabels(CLIENTS, SAMPLES, alpha=0.1), NoLatency(), SampledCohort(size=PER_ROUND)
    )
    scenario = Scenario(settings, dataset, seed=0)
    model = models.build("lenet", dataset.input_shape, dataset.num_classes, seed=0).to(device)
    simulation = Simulation(
        Server(model, local=spec), model, scenario, evaluate_every=10**9, device=device
    )
    plain = copy.deepcopy(model)
    ours, theirs = [], []
    for number in range(rounds + 2):  # the first two warm up
        ours.append(timed(lambda: simulation.run_round(), device))
        theirs.append(timed(lambda n=number: plain_round(plain, scenario, spec, n, device), device))
    best = {
        "unstale_ms": min(wall for wall, _ in ours[2:]) * 1e3,
        "plain_ms": min(wall for wall, _ in theirs[2:]) * 1e3,
        "unstale_cpu_ms": min(cpu for _, cpu in ours[2:]) * 1e3,
        "plain_cpu_ms": min(cpu for _, cpu in theirs[2:]) * 1e3,
    }
    if spec.batch_size is None:  # one order of samples, so the weights must agree
        gap = max(
            float((p - dict(plain.named_parameters())[n].detach()).abs().max())
            for n, p in simulation.server.params.items()
        )
        best["largest_weight_difference"] = gap
    return best


def main() -> None:
    """Print the table, and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="the data root; else UNSTALE_DATA")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    require_clean(arguments.json)
    device = torch.device(arguments.device)
    about = provenance([], device)
    dataset = data.load("mnist", arguments.data)
    found = {name: compare(dataset, s, device, arguments.rounds) for name, s in RECIPES.items()}
    hardware = torch.cuda.get_device_name() if device.type == "cuda" else platform.processor()
    print(f"LeNet, MNIST, {PER_ROUND} clients a round of {SAMPLES} samples; {device} {hardware},")
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, best of {arguments.rounds}"
    )
    print(f"{'recipe':<28}{'unstale r/s':>12}{'plain r/s':>12}{'ratio':>8}{'CPU ratio':>11}")
    for name, row in found.items():
        print(
            f"{name:<28}{1e3 / row['unstale_ms']:>12.2f}{1e3 / row['plain_ms']:>12.2f}"
            f"{row['plain_ms'] / row['unstale_ms']:>8.2f}"
            f"{row['plain_cpu_ms'] / row['unstale_cpu_ms']:>11.2f}"
        )
    if arguments.json:
        setting = {"device": str(device), "rounds": arguments.rounds}
        write_result(arguments.json, about, {"setting": setting, "rows": found})


if __name__ == "__main__":
    main()
