"""How many iterations do sparsification and a warm start save? The paper's two tables.

A global model is trained without delay. Some clients' updates from an earlier version
are converted: with several sparsification rates from a cold start, and from the
surrogate of the client's update before that, where a share of the client's samples has
been exchanged for others of the same classes meanwhile.

    python experiments/conversion_savings/study.py --sets digits --seeds 0,1,2 --out digits.json
    python experiments/conversion_savings/study.py --sets mnist --data DIR --device cuda --out FILE

`tables.py` makes the tables from these files.
"""

import argparse
import dataclasses
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
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
NEAR = 1.05  # a loss at most this many times the one that a cold start reaches counts as it
TARGETS = (0.3, 0.1)  # losses at which iterations are compared: 1 is no fit, 0 a perfect one
SETS: dict[str, dict[str, Any]] = {
    "digits": {"model": "digits", "lr": 0.1, "rounds": 60, "cohort": 10,
               "partition": OneClass(30, 40)},
    "mnist": {"model": "lenet", "lr": 0.01, "rounds": 60, "cohort": 10,
              "partition": DirichletLabels(40, 100, 0.1)},
    # The same clients with a model that is quick on a CPU.
    "mnist_mlp": {"data": "mnist", "model": "mlp", "settings": {"hidden": [64]}, "lr": 0.05,
                  "rounds": 60, "cohort": 10, "partition": DirichletLabels(40, 100, 0.1)},
}  # fmt: skip


def first_below(losses: Sequence[float], target: float) -> int | None:
    """Return how many iterations it took to come to a loss, or None if it never did.

    Example:
        >>> first_below([0.9, 0.5, 0.2, 0.3], 0.5)
        2
    """
    return next((i for i, loss in enumerate(losses, start=1) if loss <= target), None)


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
    dataset = data.load(setting.get("data", name), root)
    spec = ScenarioSpec(setting["partition"], NoLatency(), SampledCohort(size=setting["cohort"]))
    scenario = Scenario(spec, dataset, seed)
    model = models.build(
        setting["model"],
        dataset.input_shape,
        dataset.num_classes,
        seed=derive(seed, "model"),
        **setting.get("settings", {}),
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


def main() -> None:
    """Run what was asked for and write all rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sets", default="digits")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--most", type=int, default=600, help="iterations at most, cold and warm")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
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
            body = {"settings": dataclasses.asdict(settings), "rows": rows}
            write_result(arguments.out, about, body)


if __name__ == "__main__":
    main()
