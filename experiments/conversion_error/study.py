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
from unstale.sim.cohort import Cohort, SampledCohort, WholeCohort
from unstale.sim.latency import NoLatency
from unstale.sim.partition import ByUser, DirichletLabels, OneClass, Partition

STALENESS: tuple[int, ...] = (5, 20, 50, 100)
CURRENT = 140
APART = 10  # rounds between a client's updates, where several are fitted at once
DEEPEST = 6
MODELS = {"mnist": "lenet", "fashion_mnist": "lenet", "hapt": "cnn1d"}
# Which clients there are, and how many take part in a round.
SCENARIOS: dict[str, tuple[Partition, Cohort]] = {
    "one_class": (OneClass(100, 450), SampledCohort(size=10)),
    "dirichlet": (DirichletLabels(100, 450, 0.1), WholeCohort()),
    "user": (ByUser(), WholeCohort()),
}

DENSE: dict[str, Any] = {"sparsity": 0.0, "at_once": 32}
# What was tried around the default: the start, the steps, the schedule, how much is fitted.
COSINE: dict[str, Any] = {
    **DENSE, "start": "zeros", "noise": 0.03, "lr": 0.03, "label_lr": 0.1, "iterations": 300,
    "patience": 0, "schedule": "cosine",
}  # fmt: skip
GROUPS: dict[str, dict[str, Invert]] = {
    "main": {
        "default, sparsity 0": Invert(**DENSE),
        "default, sparsity 0.95": Invert(at_once=32),
    },
    "start": {
        "from halfway": Invert(**DENSE, start="halfway"),
        "from 0": Invert(**DENSE),
        "from 0, 95 % sparse": Invert(at_once=32),
    },
    "paper": {"paper, 500 iterations": preset("paper", **DENSE, iterations=500)},
    "explore": {
        "default": Invert(**DENSE),
        "start at zero": Invert(**{**DENSE, "start": "zeros"}),
        "cosine": Invert(**COSINE),
        "constant": Invert(**{**COSINE, "schedule": "constant"}),
        "plateau": Invert(**{**COSINE, "schedule": "constant", "patience": 10}),
        "150 iterations": Invert(**{**COSINE, "iterations": 150}),
        "600 iterations": Invert(**{**COSINE, "iterations": 600}),
        "lr 0.06": Invert(**{**COSINE, "lr": 0.06}),
        "lr 0.015": Invert(**{**COSINE, "lr": 0.015}),
        "label lr 0.3": Invert(**{**COSINE, "label_lr": 0.3}),
        "noise 0.01": Invert(**{**COSINE, "noise": 0.01}),
        "noise 0.1": Invert(**{**COSINE, "noise": 0.1}),
        "unbounded": Invert(**COSINE, bounded=False),
        "l1": Invert(**COSINE, objective="l1"),
        "32 samples": Invert(**COSINE, max_samples=32),
        "225 samples": Invert(**COSINE, max_samples=225),
        "2 updates": Invert(**COSINE, history=2),
        "4 updates": Invert(**COSINE, history=4),
        "4 updates, tv": Invert(**COSINE, history=4, tv=1e-3),
        "95 % sparse": Invert(**{**COSINE, "sparsity": 0.95}),
        "95 % sparse, 4 updates": Invert(**{**COSINE, "sparsity": 0.95}, history=4),
        "95 % sparse, 6 updates": Invert(**{**COSINE, "sparsity": 0.95}, history=6),
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


def train(
    name: str, scenario_name: str, root: str | None, device: str, seed: int, clients: int
) -> Trained:
    """Train without delay and keep the versions that are looked at."""
    partition, cohort = SCENARIOS[scenario_name]
    dataset = data.load(name, root)
    spec = ScenarioSpec(partition, NoLatency(), cohort)
    scenario = Scenario(spec, dataset, seed)
    model = models.build(
        MODELS[name], dataset.input_shape, dataset.num_classes, seed=derive(seed, "model")
    ).to(device)
    local = LocalSpec(lr=0.01, momentum=0.5, epochs=5)
    simulation = Simulation(
        Server(model, local=local, seed=seed),
        model,
        scenario,
        evaluate_every=CURRENT,
        device=device,
    )
    wanted = {CURRENT} | {
        max(CURRENT - tau - APART * back, 0) for tau in STALENESS for back in range(DEEPEST)
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
    global CURRENT, STALENESS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sets", default="mnist")
    parser.add_argument("--scenario", default="one_class", choices=sorted(SCENARIOS))
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--variants", default="main", choices=sorted(GROUPS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--current", type=int, default=CURRENT, help="today's version")
    parser.add_argument("--staleness", default=",".join(map(str, STALENESS)))
    arguments = parser.parse_args()
    CURRENT = arguments.current
    STALENESS = tuple(map(int, arguments.staleness.split(",")))
    found: list[dict] = []
    for name in arguments.sets.split(","):
        for seed in map(int, arguments.seeds.split(",")):
            trained = train(
                name, arguments.scenario, arguments.data, arguments.device, seed, arguments.clients
            )
            setting = {"set": name, "scenario": arguments.scenario, "seed": seed}
            found += rows(trained, GROUPS[arguments.variants], setting)
            if arguments.out:
                arguments.out.write_text(json.dumps(found, indent=0) + "\n")
    print(table(found))


if __name__ == "__main__":
    main()
