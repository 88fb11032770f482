"""How many iterations do sparsification and a warm start save? The paper's two tables.

A global model is trained without delay. Some clients' updates from an earlier version
are converted: with several sparsification rates from a cold start, and from the
surrogate of the client's update before that, where a share of the client's samples has
been exchanged for others of the same classes meanwhile.

    python experiments/conversion_savings/study.py --sets digits --seeds 0,1,2
    python experiments/conversion_savings/study.py --sets mnist --data DIR --device cuda
"""

import argparse
import dataclasses
import json
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from unstale import LocalSpec, Server, data, models
from unstale.inversion import Conversion, InputSpec, Inversion, Request, Surrogate, convert_many
from unstale.inversion.target import top_mask
from unstale.params import cosine_distance, flatten
from unstale.run_folder.provenance import provenance, require_clean, write_result
from unstale.seeding import derive, generator
from unstale.sim import Scenario, ScenarioSpec, Simulation, Work, train_cohort
from unstale.sim.cohort import SampledCohort
from unstale.sim.drift import ResampleDrift
from unstale.sim.latency import NoLatency
from unstale.sim.partition import DirichletLabels, OneClass

TAU, APART = 20, 10  # the staleness, and the rounds between a client's two updates
RATES = (0.0, 0.9, 0.95, 0.99)
CHANGED = (0.0, 0.05, 0.2, 0.5)
PAPER_RATES = {0.0: (0.0, 0.28), 0.9: (0.68, 0.29), 0.95: (0.80, 0.31), 0.99: (0.93, 0.57)}
PAPER_CHANGED = {0.0: 0.43, 0.05: 0.21, 0.2: 0.12, 0.5: 0.06}
NEAR = 1.05  # a loss at most this many times the one that a cold start reaches counts as it
TARGETS = (0.3, 0.1)  # losses at which iterations are compared: 1 is no fit, 0 a perfect one
SETS: dict[str, dict[str, Any]] = {
    "digits": {"model": "digits", "lr": 0.1, "rounds": 60, "cohort": 10,
               "partition": OneClass(30, 40)},
    "mnist": {"model": "lenet", "lr": 0.01, "rounds": 60, "cohort": 10,
              "partition": DirichletLabels(40, 100, 0.1)},
}  # fmt: skip


def first_below(losses: Sequence[float], target: float) -> int | None:
    """Return how many iterations it took to come to a loss, or None if it never did.

    Example:
        >>> first_below([0.9, 0.5, 0.2, 0.3], 0.5)
        2
    """
    return next((i for i, loss in enumerate(losses, start=1) if loss <= target), None)


def saved(needed: float, reference: float) -> float:
    """Return the share of the reference's iterations that was saved; below 0 if it took more.

    Example:
        >>> saved(30, 40)
        0.25
    """
    return 1.0 - needed / reference


@dataclasses.dataclass(frozen=True)
class Trained:
    """A trained global model with its past, and clients whose data may change."""

    simulation: Simulation
    versions: dict[int, dict[str, torch.Tensor]]
    clients: list[int]
    inputs: InputSpec
    rounds: int

    def updates(self, version: int, changed: float = 0.0) -> list[dict[str, torch.Tensor]]:
        """Return what every chosen client sends from a version with so much other data."""
        sim, scenario = self.simulation, self.simulation.scenario
        labels = scenario.data.y_train.numpy()
        parts = [scenario.examples(c, 0).numpy() for c in range(scenario.num_clients)]
        size = len(parts[0])
        plan = ResampleDrift(per_round=round(changed * size)).plan(parts, labels, scenario.seed)
        x, y = scenario.data.x_train, scenario.data.y_train
        work = []
        for client in self.clients:
            index = torch.from_numpy(plan.indices(client, 1))
            own = generator(scenario.seed, "batches", client, version)
            work.append(
                Work(self.versions[version], x[index].to(sim.device), y[index].to(sim.device), own)
            )
        return train_cohort(sim.model, work, sim.server.local)

    def convert(
        self, base: int, deltas: Sequence[Any], settings: Inversion,
        warm: Sequence[Surrogate | None] | None = None,
    ) -> list[Conversion]:  # fmt: skip
        """Convert updates from a version into ones from the last."""
        scenario = self.simulation.scenario
        requests = [
            Request(
                self.versions[base], delta, len(scenario.examples(client, 0)),
                warm=warm[i] if warm else None, seed=derive(scenario.seed, "savings", client),
            )
            for i, (client, delta) in enumerate(zip(self.clients, deltas, strict=True))
        ]  # fmt: skip
        return convert_many(
            self.simulation.model, requests, current=self.versions[self.rounds],
            local=self.simulation.server.local, inputs=self.inputs, settings=settings,
        )  # fmt: skip


def train(name: str, root: str | None, device: str, seed: int, clients: int) -> Trained:
    """Train without delay and keep all versions."""
    setting = SETS[name]
    dataset = data.load(name, root)
    spec = ScenarioSpec(setting["partition"], NoLatency(), SampledCohort(size=setting["cohort"]))
    scenario = Scenario(spec, dataset, seed)
    model = models.build(
        setting["model"], dataset.input_shape, dataset.num_classes, seed=derive(seed, "model")
    ).to(device)
    local = LocalSpec(lr=setting["lr"], momentum=0.5, epochs=5)
    simulation = Simulation(
        Server(model, local=local, seed=seed), model, scenario,
        evaluate_every=setting["rounds"], device=device,
    )  # fmt: skip
    versions = {0: simulation.server.params}
    for v in range(setting["rounds"]):
        line = simulation.run_round()
        versions[v + 1] = simulation.server.params
    print(f"{name} seed {seed}: trained, accuracy {line.accuracy:.3f}", flush=True)
    rng = generator(seed, "savings", "clients")
    chosen = torch.randperm(scenario.num_clients, generator=rng)[:clients].tolist()
    inputs = InputSpec(dataset.input_shape, dataset.num_classes, dataset.low, dataset.high)
    return Trained(simulation, versions, sorted(chosen), inputs, setting["rounds"])


def kept_size(vector: torch.Tensor, rate: float) -> float:
    """Return the norm of the entries that are kept, as a share of the whole norm.

    Example:
        >>> kept_size(torch.tensor([3.0, 4.0]), 0.5)
        0.8
    """
    mask = top_mask(vector, rate)
    kept = vector if mask is None else vector * mask
    return round(float(kept.norm() / vector.norm()), 6)


def sparsification(trained: Trained, settings: Inversion, row: dict[str, Any]) -> Iterator[dict]:
    """Yield one row per client and rate: iterations to the plateau and to a loss, and errors."""
    base = trained.rounds - TAU
    stale, truth = trained.updates(base), trained.updates(trained.rounds)
    dense: list[Conversion] = []
    for rate in RATES:
        chosen = dataclasses.replace(settings, sparsity=rate)
        found = trained.convert(base, stale, chosen)
        dense = dense or found
        for i, one in enumerate(found):
            # What is left of the update as a distance, not as a share of the kept entries:
            # fewer entries have less to be wrong in.
            whole = NEAR * dense[i].loss / kept_size(flatten(stale[i]), rate)
            yield {
                **row, "table": "sparsification", "rate": rate, "client": trained.clients[i],
                "to_plateau": one.iterations, "loss": one.loss if one.ok else None,
                "to_dense": first_below(one.losses, whole),
                **{f"to_{t:g}": first_below(one.losses, t) for t in TARGETS},
                "error": cosine_distance(one.delta, truth[i]),
                "stale_error": cosine_distance(stale[i], truth[i]),
            }  # fmt: skip


def warm_start(trained: Trained, settings: Inversion, row: dict[str, Any]) -> Iterator[dict]:
    """Yield one row per client and share of changed data: iterations cold and warm."""
    base = trained.rounds - TAU
    before = trained.convert(base - APART, trained.updates(base - APART), settings)
    kept = [one.surrogate for one in before]
    for changed in CHANGED:
        stale = trained.updates(base, changed)
        truth = trained.updates(trained.rounds, changed)
        cold = trained.convert(base, stale, settings)
        warm = trained.convert(base, stale, settings, kept)
        for i, (a, b) in enumerate(zip(cold, warm, strict=True)):
            target = NEAR * a.loss
            needed = first_below(a.losses, target)
            reached = first_below(b.losses, target)
            yield {
                **row, "table": "warm", "changed": changed, "client": trained.clients[i],
                "cold": needed, "cold_loss": a.loss, "cold_plateau": a.iterations,
                "warm": reached,  # None where it stopped on a plateau before
                **{f"cold_to_{t:g}": first_below(a.losses, t) for t in TARGETS},
                **{f"warm_to_{t:g}": first_below(b.losses, t) for t in TARGETS},
                "warm_loss": b.loss, "warm_plateau": b.iterations,
                "cold_error": cosine_distance(a.delta, truth[i]),
                "warm_error": cosine_distance(b.delta, truth[i]),
                "stale_error": cosine_distance(stale[i], truth[i]),
            }  # fmt: skip


def mean_of(rows: Sequence[dict], key: str) -> float:
    """Return the mean of what was found; not a number where nothing was."""
    found = [r[key] for r in rows if r[key] is not None]
    return fmean(found) if found else math.nan


def compared(pairs: Sequence[tuple[float | None, float | None]]) -> str:
    """Return mean iterations of both, what the second saves, and over how many pairs.

    A pair of which one never came so far is left out of the means, hence the count.

    Example:
        >>> compared([(40, 30), (20, 15), (9, None)]).split()
        ['30', '22', '25%', '(2)']
    """
    both = [(a, b) for a, b in pairs if a is not None and b is not None]
    if not both:
        return f"{'-':>23}"
    first, second = fmean(a for a, _ in both), fmean(b for _, b in both)
    return f"{first:>6.0f}{second:>6.0f}{saved(second, first):>6.0%}{f'({len(both)})':>5}"


def print_tables(rows: Sequence[dict]) -> None:
    """Print both tables with the paper's figures beside them."""
    to = [f"to_{t:g}" for t in TARGETS]
    for name in dict.fromkeys(r["set"] for r in rows):
        ours = [r for r in rows if r["set"] == name]
        at = {rate: [r for r in ours if r.get("rate") == rate] for rate in RATES}
        print(f"\n{name}: sparsification, cold: iterations at rate 0, at this rate, saved, (pairs)")
        keys = {"to_plateau": "own stop", "to_dense": "to dense's distance"}
        keys |= {key: f"to loss {key[3:]}" for key in to}
        print(
            f"{'rate':>6}" + "".join(f"{head:>23}" for head in keys.values())
            + f"{'error':>9}{'stale':>8}{'paper: saved':>14}{'error':>7}"
        )  # fmt: skip
        for rate, mine in at.items():
            cells = "".join(
                compared([(a[key], b[key]) for a, b in zip(at[0.0], mine, strict=True)])
                for key in keys
            )
            print(
                f"{rate:>6.0%}{cells}{mean_of(mine, 'error'):>9.4f}"
                f"{mean_of(mine, 'stale_error'):>8.4f}"
                f"{PAPER_RATES[rate][0]:>14.0%}{PAPER_RATES[rate][1]:>7}"
            )
        print(f"\n{name}: warm start: iterations cold, warm, saved, (pairs)")
        names = {"own stop": ("cold_plateau", "warm_plateau")}
        names |= {f"to loss {key[3:]}": (f"cold_{key}", f"warm_{key}") for key in to}
        names |= {"to cold's own loss": ("cold", "warm")}
        print(
            f"{'changed':>8}" + "".join(f"{head:>23}" for head in names)
            + f"{'cold err.':>11}{'warm err.':>11}{'stale':>8}{'paper: saved':>14}"
        )  # fmt: skip
        for changed in CHANGED:
            mine = [r for r in ours if r.get("changed") == changed]
            cells = "".join(compared([(r[a], r[b]) for r in mine]) for a, b in names.values())
            print(
                f"{changed:>8.0%}{cells}{mean_of(mine, 'cold_error'):>11.4f}"
                f"{mean_of(mine, 'warm_error'):>11.4f}{mean_of(mine, 'stale_error'):>8.4f}"
                f"{PAPER_CHANGED[changed]:>14.0%}"
            )


def main() -> None:
    """Run what was asked for, print the tables and write all rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sets", default="digits")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--most", type=int, default=600, help="iterations at most, cold and warm")
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--show", type=Path, help="print the tables of an earlier --out, run nothing"
    )
    arguments = parser.parse_args()
    if arguments.show:
        print_tables(json.loads(arguments.show.read_text())["rows"])
        return
    require_clean(arguments.out)
    about = provenance([int(s) for s in arguments.seeds.split(",")], arguments.device)
    # Only the plateau test ends a fit here, also one that is good.
    settings = Inversion(
        sparsity=0.95,
        iterations=arguments.most,
        warm_iterations=arguments.most,
        good_loss=0.0,
        at_once=32,
    )
    rows: list[dict] = []
    for name in arguments.sets.split(","):
        for seed in map(int, arguments.seeds.split(",")):
            trained = train(name, arguments.data, arguments.device, seed, arguments.clients)
            began = time.perf_counter()
            row = {"set": name, "seed": seed}
            rows += sparsification(trained, settings, row)
            rows += warm_start(trained, settings, row)
            print(f"{name} seed {seed}: {time.perf_counter() - began:.0f} s", flush=True)
            if arguments.out:
                body = {"settings": dataclasses.asdict(settings), "rows": rows}
                write_result(arguments.out, about, body)
    print_tables(rows)


if __name__ == "__main__":
    main()
