"""How far is a converted update from the one the client would have sent today?

Trains a global model without delay, takes clients' updates from earlier versions
as if they came late, converts them in several ways, and compares each with the
true update from today's model (which only a simulation knows) by cosine distance.

    python experiments/conversion_error/study.py --data DIR --device cuda \
        --sets mnist,fashion_mnist --seeds 0,1,2 --variants main --out results.json
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from unstale import LocalSpec, Server, data, models
from unstale.compensate.first_order import taylor
from unstale.invert import InputSpec, Invert, Request, convert_many, preset
from unstale.params import cosine_distance, subtract
from unstale.seeding import derive, generator
from unstale.sim import Scenario, ScenarioSpec, Simulation, train_cohort
from unstale.sim.cohort import SampledCohort
from unstale.sim.latency import NoLatency
from unstale.sim.partition import ByUser, DirichletLabels

STALENESS = (5, 20, 50, 100)
CURRENT = 140
APART = 10  # rounds between a client's updates, where several are fitted at once
DEEPEST = 6
SETS: dict[str, dict[str, Any]] = {
    "mnist": {"model": "lenet", "partition": DirichletLabels(100, 450, 0.1)},
    "fashion_mnist": {"model": "lenet", "partition": DirichletLabels(100, 450, 0.1)},
    "hapt": {"model": "cnn1d", "partition": ByUser(), "lr": 0.03},
}

DENSE: dict[str, Any] = {"sparsity": 0.0, "at_once": 32}
Z: dict[str, Any] = {"start": "zeros", "noise": 0.03, "lr": 0.03, "label_lr": 0.1, "at_once": 32}
D: dict[str, Any] = {**Z, "sparsity": 0.0, "iterations": 300}
N: dict[str, Any] = {**D, "patience": 0}
GROUPS: dict[str, dict[str, Invert]] = {
    "second": {
        "plateau": Invert(**D),
        "constant": Invert(**N),
        "cosine": Invert(**N, schedule="cosine"),
        "cosine 150": Invert(**{**N, "iterations": 150}, schedule="cosine"),
        "cosine 600": Invert(**{**N, "iterations": 600}, schedule="cosine"),
        "cosine lr .06": Invert(**{**N, "lr": 0.06}, schedule="cosine"),
        "cosine label .3": Invert(**{**N, "label_lr": 0.3}, schedule="cosine"),
        "cosine lr .015": Invert(**{**N, "lr": 0.015}, schedule="cosine"),
        "cosine noise .01": Invert(**{**N, "noise": 0.01}, schedule="cosine"),
        "cosine noise .1": Invert(**{**N, "noise": 0.1}, schedule="cosine"),
        "cosine unbounded": Invert(**N, schedule="cosine", bounded=False),
        "cosine l1": Invert(**N, schedule="cosine", objective="l1"),
        "cosine 32": Invert(**N, schedule="cosine", max_samples=32),
        "cosine 225": Invert(**N, schedule="cosine", max_samples=225),
        "cosine h2": Invert(**N, schedule="cosine", history=2),
        "cosine h4": Invert(**N, schedule="cosine", history=4),
        "cosine h4 tv": Invert(**N, schedule="cosine", history=4, tv=1e-3),
        "sparse": Invert(**{**N, "sparsity": 0.95}, schedule="cosine"),
        "sparse h4": Invert(**{**N, "sparsity": 0.95}, schedule="cosine", history=4),
        "sparse h6": Invert(**{**N, "sparsity": 0.95}, schedule="cosine", history=6),
    },
    "main": {
        "default, sparsity 0": Invert(**DENSE),
        "default, sparsity 0.95": Invert(at_once=32),
        "paper, 2000 iterations": preset("paper", **DENSE),
    },
    "explore": {
        "base": Invert(**DENSE),
        "lr .1 noise .1": Invert(**DENSE, lr=0.1, label_lr=0.1, noise=0.1),
        "lr .1 noise .1 300": Invert(**DENSE, lr=0.1, label_lr=0.1, noise=0.1, iterations=300),
        "lr .1 label .5 300": Invert(**DENSE, lr=0.1, label_lr=0.5, noise=0.1, iterations=300),
        "lr .05 300": Invert(**DENSE, iterations=300),
        "lr .02 300": Invert(**DENSE, lr=0.02, label_lr=0.2, iterations=300),
        "cosine sched 300": Invert(**DENSE, iterations=300, schedule="cosine", patience=0),
        "cosine sched .1 300": Invert(
            **DENSE, lr=0.1, iterations=300, schedule="cosine", patience=0
        ),
        "unbounded": Invert(**DENSE, iterations=300, bounded=False),
        "noise .1": Invert(**DENSE, iterations=300, noise=0.1),
        "noise .3": Invert(**DENSE, iterations=300, noise=0.3),
        "225 samples": Invert(**DENSE, iterations=300, max_samples=225),
        "32 samples": Invert(**DENSE, iterations=300, max_samples=32),
        "l1": Invert(**DENSE, iterations=300, objective="l1"),
        "l2+cosine": Invert(**DENSE, iterations=300, objective="l2+cosine"),
        "history 2": Invert(**DENSE, iterations=300, history=2),
        "history 4": Invert(**DENSE, iterations=300, history=4),
        "history 4 tv": Invert(**DENSE, iterations=300, history=4, tv=1e-3),
        "tv": Invert(**DENSE, iterations=300, tv=1e-3),
        "zeros": Invert(**DENSE, iterations=300, start="zeros"),
        "zeros noise .1": Invert(**DENSE, iterations=300, start="zeros", noise=0.1),
        "zeros lr .1 noise .1": Invert(
            **DENSE, iterations=300, start="zeros", noise=0.1, lr=0.1, label_lr=0.1
        ),
        "zeros unbounded .1": Invert(
            **DENSE, iterations=300, start="zeros", noise=0.1, lr=0.1, label_lr=0.1, bounded=False
        ),
        "zeros unbounded .05": Invert(
            **DENSE, iterations=300, start="zeros", noise=0.1, bounded=False
        ),
        "zeros cosine": Invert(
            **DENSE, iterations=300, start="zeros", noise=0.1, schedule="cosine", patience=0
        ),
        "zeros history 4": Invert(**DENSE, iterations=300, start="zeros", noise=0.1, history=4),
        "sparse zeros history 6": Invert(
            iterations=300, start="zeros", noise=0.1, history=6, at_once=32
        ),
        "sparse": Invert(at_once=32, iterations=300),
        "sparse history 4": Invert(at_once=32, iterations=300, history=4),
        "sparse history 6": Invert(at_once=32, iterations=300, history=6),
        "sparse history 6 tv": Invert(at_once=32, iterations=300, history=6, tv=1e-3),
    },
}


@dataclasses.dataclass(frozen=True)
class Trained:
    """A trained global model with its past, and the clients' updates from it."""

    simulation: Simulation
    versions: dict[int, dict[str, torch.Tensor]]
    clients: list[int]
    inputs: InputSpec

    def updates(self, version: int) -> list[dict[str, torch.Tensor]]:
        """Return what every chosen client sends from a version."""
        sim = self.simulation
        work = [sim._work(client, version, self.versions[version]) for client in self.clients]
        return train_cohort(sim.model, work, sim.server.local)

    def examples(self, client: int) -> int:
        """Return how many samples a client holds."""
        return len(self.simulation.scenario.examples(client, 0))


def train(name: str, root: str | None, device: str, seed: int, clients: int) -> Trained:
    """Train without delay and keep the versions that are looked at."""
    setting = SETS[name]
    dataset = data.load(name, root)
    spec = ScenarioSpec(setting["partition"], NoLatency(), SampledCohort(size=100))
    scenario = Scenario(spec, dataset, seed)
    model = models.build(
        setting["model"], dataset.input_shape, dataset.num_classes, seed=derive(seed, "model")
    ).to(device)
    local = LocalSpec(lr=setting.get("lr", 0.01), momentum=0.5, epochs=5)
    simulation = Simulation(
        Server(model, local=local, seed=seed),
        model,
        scenario,
        evaluate_every=CURRENT,
        device=device,
    )
    wanted = {CURRENT} | {
        CURRENT - tau - APART * back for tau in STALENESS for back in range(DEEPEST)
    }
    versions = {}
    for _ in range(CURRENT + 1):
        if simulation.round in wanted:
            versions[simulation.round] = simulation.server.params
        if simulation.round < CURRENT:
            record = simulation.run_round()
    print(f"{name} seed {seed}: trained, accuracy {record['accuracy']:.3f}", flush=True)
    rng = generator(seed, "study", "clients")
    chosen = torch.randperm(scenario.num_clients, generator=rng)[:clients].tolist()
    inputs = InputSpec(dataset.input_shape, dataset.num_classes, dataset.low, dataset.high)
    return Trained(simulation, versions, sorted(chosen), inputs)


def rows(trained: Trained, variants: dict[str, Invert], setting: dict[str, Any]) -> Iterator[dict]:
    """Yield one row per client, staleness and way."""
    current = trained.versions[CURRENT]
    truth = trained.updates(CURRENT)
    stale = {v: trained.updates(v) for v in trained.versions if v != CURRENT}
    for tau in STALENESS:
        base = CURRENT - tau
        move = subtract(current, trained.versions[base])
        for i, client in enumerate(trained.clients):
            row = {**setting, "client": client, "tau": tau}
            yield {**row, "way": "stale", "error": cosine_distance(stale[base][i], truth[i])}
            first = taylor(stale[base][i], move, 1.0)
            yield {**row, "way": "first_order", "error": cosine_distance(first, truth[i])}
    for name, settings in variants.items():
        requests, keys = [], []
        for tau in STALENESS:
            base = CURRENT - tau
            earlier = [base - APART * back for back in range(settings.history - 1, 0, -1)]
            for i, client in enumerate(trained.clients):
                past = [(trained.versions[v], stale[v][i]) for v in earlier if v in stale]
                keys.append((i, client, tau))
                requests.append(
                    Request(
                        trained.versions[base], stale[base][i], trained.examples(client), past,
                        seed=derive(setting["seed"], "study", client),
                    )
                )  # fmt: skip
        began = time.perf_counter()
        found = convert_many(
            trained.simulation.model,
            requests,
            current=current,
            local=trained.simulation.server.local,
            inputs=trained.inputs,
            settings=settings,
        )
        seconds = time.perf_counter() - began
        for (i, client, tau), one in zip(keys, found, strict=True):
            yield {
                **setting, "client": client, "tau": tau, "way": name, "ok": one.ok,
                "error": cosine_distance(one.delta, truth[i]), "loss": one.loss if one.ok else None,
                "iterations": one.iterations, "seconds": seconds / len(found),
            }  # fmt: skip


def table(found: list[dict]) -> str:
    """Return mean errors: one line per data set and way, one column per staleness."""
    lines = [
        f"{'set':<14}{'way':<26}"
        + "".join(f"{f'τ={t}':>9}" for t in STALENESS)
        + "     s/each  iter"
    ]
    for name in dict.fromkeys(r["set"] for r in found):
        for way in dict.fromkeys(r["way"] for r in found if r["set"] == name):
            mine = [r for r in found if r["set"] == name and r["way"] == way]
            cells = [fmean(r["error"] for r in mine if r["tau"] == t) for t in STALENESS]
            seconds = fmean(r.get("seconds", 0) for r in mine)
            iterations = fmean(r.get("iterations", 0) for r in mine)
            lines.append(
                f"{name:<14}{way:<26}" + "".join(f"{c:>9.4f}" for c in cells)
                + f"{seconds:>11.3f}{iterations:>6.0f}"
            )  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    """Run what was asked for, print the table and write all rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sets", default="mnist")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--variants", default="main", choices=sorted(GROUPS))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    found: list[dict] = []
    for name in arguments.sets.split(","):
        for seed in map(int, arguments.seeds.split(",")):
            trained = train(name, arguments.data, arguments.device, seed, arguments.clients)
            found += rows(trained, GROUPS[arguments.variants], {"set": name, "seed": seed})
            print(table([r for r in found if r["set"] == name]), flush=True)
            if arguments.out:
                arguments.out.write_text(json.dumps(found, indent=0) + "\n")
    print(table(found))


if __name__ == "__main__":
    main()
