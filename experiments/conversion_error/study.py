"""How far is a converted update from the one the client would have sent today?

Trains a global model without delay, takes clients' updates from earlier versions
as if they came late, converts them in several ways, and compares each with the
true update from today's model (which only a simulation knows) by cosine distance (`error`)
and by relative L1 error (`l1`).

    python experiments/conversion_error/study.py --data DIR --device cuda \
        --sets mnist,fashion_mnist --seeds 0,1,2 --variants main --jobs 6 --out results.json
"""

import argparse
import dataclasses
import itertools
import json
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

import tables
import torch

from unstale import LocalSpec, Server, data, models
from unstale.inversion import InputSpec, Inversion, Request, Surrogate, convert_many, preset
from unstale.methods.first_order import taylor
from unstale.params import Params, cosine_distance, l1_error, subtract
from unstale.run_folder.provenance import provenance, require_clean, write_result
from unstale.seeding import derive, generator
from unstale.sim import Scenario, ScenarioSpec, Simulation, train_cohort
from unstale.sim.cohort import Cohort, SampledCohort
from unstale.sim.latency import NoLatency
from unstale.sim.partition import ByUser, DirichletLabels, OneClass, Partition

STALENESS: tuple[int, ...] = (5, 20, 50, 100)
CURRENT = 140
APART = 10  # rounds between a client's updates
OWN = (64, 128)  # of a client's own samples, trained in place of a surrogate
MODELS = {"mnist": "lenet", "fashion_mnist": "lenet", "hapt": "cnn1d"}
# Which clients there are, and how many take part in a round.
SCENARIOS: dict[str, tuple[Partition, Cohort]] = {
    "one_class": (OneClass(100, 450), SampledCohort(size=10)),
    "dirichlet": (DirichletLabels(100, 450, 0.1), SampledCohort(size=10)),
    "user": (ByUser(), SampledCohort(size=10)),
}

# Fitted to one update, as the default was when the results were made.
DENSE = Inversion(sparsity=0.0, history=1, at_once=32)
SPARSE = Inversion(sparsity=0.95, history=1, at_once=32)
change = dataclasses.replace
# What the preset `thorough` was then.
LARGER = Inversion(history=4, max_samples=225, warm_iterations=50, at_once=32)
# What is measured by a name of its own; `explore` is what was tried around the default.
GROUPS: dict[str, dict[str, Inversion]] = {
    "main": {
        "default": DENSE,
        "95 % sparse": SPARSE,
        "thorough": LARGER,
        "thorough, 95 % sparse": change(LARGER, sparsity=0.95),
    },
    # With `--iterations`, since 15,000 take long.
    "paper": {
        "paper": preset("paper", at_once=32),
        "paper, dense": preset("paper_dense", at_once=32),
    },
    "explore": {
        "default": DENSE,
        "warm steps 0.3, constant": change(DENSE, warm_lr=0.3, shrink_steps_below=0.0),
        "steps never cut": change(DENSE, shrink_steps_below=0.0),
        "warm steps 0.5": change(DENSE, warm_lr=0.5),
        "12 warm": change(DENSE, warm_iterations=12),
        "50 warm": change(DENSE, warm_iterations=50),
        "95 % sparse": SPARSE,
        "95 % sparse, 12 warm": change(SPARSE, warm_iterations=12),
        "2 updates": change(DENSE, history=2),
        "95 % sparse, 4 updates": change(SPARSE, history=4),
        "64 samples": change(DENSE, max_samples=64),
        "225 samples": change(DENSE, max_samples=225),
        "no residual": change(DENSE, residual=False),
        "95 % sparse, no residual": change(SPARSE, residual=False),
        "from halfway": change(DENSE, start="halfway"),
        "gaussian start": change(DENSE, start="gaussian"),
        "l1": change(DENSE, objective="l1"),
        "l2+cosine": change(DENSE, objective="l2+cosine"),
        "lr 0.1": change(DENSE, lr=0.1),
        "label lr 0.1": change(DENSE, label_lr=0.1),
        "noise 0.1": change(DENSE, noise=0.1),
        "total variation": change(DENSE, tv=1e-3),
        "unbounded": change(DENSE, bounded=False),
        "300 cold, cosine": change(DENSE, iterations=300, patience=0, schedule="cosine"),
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

    def part(self, version: int, count: int, seed: int) -> list[dict[str, torch.Tensor]]:
        """Return what every chosen client would send if it had only `count` of its samples."""
        sim = self.simulation
        work = [sim._work(client, version, self.versions[version]) for client in self.clients]
        for i, (client, whole) in enumerate(zip(self.clients, work, strict=True)):
            rng = generator(seed, "study", "part", client)
            rows = torch.randperm(len(whole.x), generator=rng)[:count].to(whole.x.device)
            work[i] = dataclasses.replace(whole, x=whole.x[rows], y=whole.y[rows])
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
    wanted = {CURRENT, *(CURRENT - tau for tau in STALENESS), *range(0, CURRENT, APART)}
    versions = {}
    for _ in range(CURRENT + 1):
        if simulation.round in wanted:
            versions[simulation.round] = simulation.server.params
        if simulation.round < CURRENT:
            line = simulation.run_round()
    print(f"{name} seed {seed}: trained, accuracy {line.accuracy:.3f}", flush=True)
    rng = generator(seed, "study", "clients")
    chosen = torch.randperm(scenario.num_clients, generator=rng)[:clients].tolist()
    inputs = InputSpec(dataset.input_shape, dataset.num_classes, dataset.low, dataset.high)
    return Trained(simulation, versions, sorted(chosen), inputs)


def apart(value: Params, truth: Params) -> dict[str, float]:
    """Return the distances of an update from the true one."""
    return {"error": cosine_distance(value, truth), "l1": l1_error(value, truth)}


def rows(
    trained: Trained, variants: dict[str, Inversion], setting: dict[str, Any], when: list[str]
) -> Iterator[dict]:
    """Yield one row per client, staleness and way."""
    current = trained.versions[CURRENT]
    truth = trained.updates(CURRENT)
    sent = {v: trained.updates(v) for v in trained.versions if v != CURRENT}
    # As a measure for what a surrogate can do: real data, as many as a surrogate has at most.
    parts = {count: trained.part(CURRENT, count, setting["seed"]) for count in OWN}
    for tau in STALENESS:
        base = CURRENT - tau
        move = subtract(current, trained.versions[base])
        for i, client in enumerate(trained.clients):
            row = {**setting, "client": client, "tau": tau, "when": ""}
            yield {**row, "way": "stale", **apart(sent[base][i], truth[i])}
            first = taylor(sent[base][i], move, 1.0)
            yield {**row, "way": "first_order", **apart(first, truth[i])}
            for count, own in parts.items():
                yield {**row, "way": f"{count} of its own samples", **apart(own[i], truth[i])}

    def converted(
        settings: Inversion, bases: list[int], warm: list[Surrogate | None]
    ) -> list[dict]:
        """Convert every client's update from the last of the bases, knowing those before."""
        base = bases[-1]
        known = bases[-settings.history : -1]
        requests = [
            Request(
                trained.versions[base], sent[base][i], trained.examples(client),
                [(trained.versions[v], sent[v][i]) for v in known], warm[i],
                derive(setting["seed"], "study", client, base),
            )
            for i, client in enumerate(trained.clients)
        ]  # fmt: skip
        began = time.perf_counter()
        found = convert_many(
            trained.simulation.model, requests, current=current,
            local=trained.simulation.server.local, inputs=trained.inputs, settings=settings,
        )  # fmt: skip
        seconds = (time.perf_counter() - began) / len(found)
        warm[:] = [one.surrogate for one in found]
        return [
            {
                **setting, "client": client, "tau": CURRENT - base, "ok": one.ok,
                **apart(one.delta, truth[i]), "loss": one.loss if one.ok else None,
                "iterations": one.iterations, "seconds": seconds,
            }
            for i, (client, one) in enumerate(zip(trained.clients, found, strict=True))
        ]  # fmt: skip

    for name, settings in variants.items():
        if "first" in when:  # a client's very first update that is converted
            for tau in STALENESS:
                begun = converted(settings, [CURRENT - tau], [None] * len(truth))
                yield from ({**row, "way": name, "when": "first"} for row in begun)
        if "in a run" in when:  # one update every few rounds, each begun with the last surrogate
            warm: list[Surrogate | None] = [None] * len(truth)
            bases: list[int] = []
            for base in sorted(sent):
                bases.append(base)
                found = converted(settings, bases, warm)
                if CURRENT - base in STALENESS:
                    yield from ({**row, "way": name, "when": "in a run"} for row in found)
        print(f"  {setting['set']} {setting['scenario']} {setting['seed']}: {name}", flush=True)


@dataclasses.dataclass(frozen=True)
class Job:
    """One setting, as a process of its own can be given it."""

    name: str
    scenario: str
    seed: int
    variants: dict[str, Inversion]
    when: list[str]
    root: str | None
    device: str
    clients: int
    current: int
    staleness: tuple[int, ...]
    out: Path | None
    """Where rows are written as they come: what was measured outlives a run that is cut off."""

    def __call__(self) -> list[dict]:
        """Train, convert and return all rows."""
        global CURRENT, STALENESS
        CURRENT, STALENESS = self.current, self.staleness
        trained = train(self.name, self.scenario, self.root, self.device, self.seed, self.clients)
        setting = {"set": self.name, "scenario": self.scenario, "seed": self.seed}
        found: list[dict] = []
        for row in rows(trained, self.variants, setting, self.when):
            found.append(row)
            if self.out and len(found) % self.clients == 0:
                write_rows(self.out, found)
        return found


def measured(jobs: list[Job], at_once: int, budget: float | None) -> list[dict]:
    """Run the jobs, several at once if asked to; after `budget` seconds take what there is."""
    if at_once == 1:
        return [row for job in jobs for row in job()]
    # A GPU cannot be shared with a forked process.
    pool = ProcessPoolExecutor(at_once, mp_context=multiprocessing.get_context("spawn"))
    running = [pool.submit(job) for job in jobs]
    _, late = wait(running, timeout=budget)
    if late:
        workers = list(pool._processes.values())
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.kill()
    found: list[dict] = []
    for job, future in zip(jobs, running, strict=True):
        if future not in late:
            found += future.result()
        elif job.out and job.out.exists():
            print(f"{job.name} {job.scenario} {job.seed}: cut off", flush=True)
            found += json.loads(job.out.read_text())
    return found


def main() -> None:
    """Run what was asked for, print the table and write all rows."""
    global STALENESS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sets", default="mnist")
    parser.add_argument("--scenario", default="one_class", help=", ".join(SCENARIOS))
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--variants", default="main", choices=sorted(GROUPS))
    parser.add_argument("--when", default="first,in a run", help="first, in a run, or both")
    parser.add_argument("--only", help="of the variants, these, separated by semicolons")
    parser.add_argument("--iterations", type=int, help="for the presets `paper`; else their 15,000")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--current", type=int, default=CURRENT, help="today's version")
    parser.add_argument("--staleness", default=",".join(map(str, STALENESS)))
    parser.add_argument("--jobs", type=int, default=1, help="settings that are run at once")
    parser.add_argument("--budget", type=float, help="seconds after which --jobs are cut off")
    arguments = parser.parse_args()
    require_clean(arguments.out)
    about = provenance([int(s) for s in arguments.seeds.split(",")], arguments.device)
    variants = GROUPS[arguments.variants]
    if arguments.only:
        variants = {name: variants[name] for name in arguments.only.split(";")}
    if arguments.iterations and arguments.variants == "paper":
        fewer = {"iterations": arguments.iterations, "warm_iterations": arguments.iterations}
        variants = {
            f"{name}, {arguments.iterations} iterations": change(settings, **fewer)
            for name, settings in variants.items()
        }
    STALENESS = tuple(map(int, arguments.staleness.split(",")))
    settings = itertools.product(
        arguments.sets.split(","), arguments.scenario.split(","), arguments.seeds.split(",")
    )
    out: Path | None = arguments.out
    jobs = [
        Job(
            name, scenario, int(seed), variants, arguments.when.split(","), arguments.data,
            arguments.device, arguments.clients, arguments.current, STALENESS,
            out and out.with_suffix(f".{name}-{scenario}-{seed}.json"),
        )
        for name, scenario, seed in settings
    ]  # fmt: skip
    found = measured(jobs, arguments.jobs, arguments.budget)
    if out:
        write_result(out, about, {"rows": found})
        for job in jobs:
            if job.out:
                job.out.unlink(missing_ok=True)
    print(tables.errors(found))
    print("\nRelative L1 error:")
    print(tables.errors(found, "l1"))


def write_rows(path: Path, found: list[dict]) -> None:
    """Write what a job has so far; all of it is written again at the end."""
    path.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
