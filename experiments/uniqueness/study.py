"""Can the server tell which late updates hold something that nobody else sends?

Every client holds one class, drawn at random. Of the slow clients some hold a class
that no fast client holds (unique), the others one that fast clients hold too. The
server converts through `only_unique` and is given nothing but updates; its decisions
(notes of the kind "kept" against all others) are compared with who holds what.

    python experiments/uniqueness/study.py --sets digits --seeds 0,1,2 --rounds 220
    python experiments/uniqueness/study.py --sets mnist --data DIR --device cuda
    python experiments/uniqueness/study.py --sets digits --rule nearest
"""

import argparse
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

from unstale import FedAvg, LocalSpec, Server, data, models, only_unique
from unstale.inversion import InputSpec, Inversion
from unstale.methods import Compensator, ConvertAll, FirstOrder
from unstale.methods.conversion.uniqueness_rules import distances, mean_direction, unit
from unstale.run_folder.provenance import provenance, require_clean, write_result
from unstale.seeding import derive, numpy_generator
from unstale.server.report import Report
from unstale.sim import Scenario, ScenarioSpec, Simulation
from unstale.sim.cohort import Cohort, SampledCohort, WholeCohort
from unstale.sim.latency import ConstantLatency
from unstale.sim.partition import Indices
from unstale.updates import Receipt, Update

CLASSES = 10
STALENESS = 20
AT = (20, 100, 200, 800)  # the rounds of the paper's table
WINDOW = 20  # rounds from there on, over which decisions are counted
# What is compared with the mean distance among fresh updates: thresholds to try
RULES = {"ratio": (1.0, 1.02, 1.04, 1.08, 1.15), "nearest": (0.3, 0.5, 0.7, 0.8, 0.9)}
SETS: dict[str, dict[str, Any]] = {
    "digits": {"model": "digits", "lr": 0.1, "fast": 40, "slow": 10, "samples": 16},
    "mnist": {"model": "lenet", "lr": 0.01, "fast": 40, "slow": 10, "samples": 100},
    # The same clients with a model that is quick on a CPU.
    "mnist_mlp": {
        "data": "mnist",
        "model": "mlp",
        "settings": {"hidden": [64]},
        "lr": 0.05,
        "fast": 40,
        "slow": 10,
        "samples": 100,
    },
}


@dataclass(frozen=True)
class GivenClasses:
    """Every client holds samples of one given class."""

    classes: tuple[int, ...]
    samples: int

    def split(self, labels: Indices, users: Any, seed: int) -> list[Indices]:
        """Return every client's samples; no sample goes to two of them."""
        rng = numpy_generator(seed, "uniqueness", "samples")
        order = [rng.permutation(np.flatnonzero(labels == k)) for k in range(CLASSES)]
        used = [0] * CLASSES
        parts = []
        for klass in self.classes:
            chosen = order[klass][used[klass] : used[klass] + self.samples]
            if len(chosen) < self.samples:
                raise ValueError(f"Class {klass} has too few samples for so many clients.")
            used[klass] += self.samples
            parts.append(np.sort(chosen).astype(np.int64))
        return parts


def draw_classes(
    fast: int, slow: int, unique: int, most: int, seed: int
) -> tuple[tuple[int, ...], frozenset[int]]:
    """Return every client's class, the slow clients last, and the classes only they hold.

    Half of the slow clients hold one of `unique` classes that no fast client holds; the
    other half a class that fast clients hold. Apart from that classes are random.

    Args:
        fast: How many fast clients there are.
        slow: How many slow ones.
        unique: How many classes are on slow clients only.
        most: How many clients a class has samples for.
        seed: Another seed draws others.
    """
    rng = numpy_generator(seed, "uniqueness", "classes")
    order = rng.permutation(CLASSES).tolist()
    rare, common = order[:unique], order[unique:]
    left = dict.fromkeys(range(CLASSES), most)

    def drawn(pool: Sequence[int], count: int) -> list[int]:
        found: list[int] = []
        for _ in range(count):
            open_ = [k for k in pool if left[k]]
            found.append(int(rng.choice(open_)))
            left[found[-1]] -= 1
        return found

    late_common = drawn(common, slow - slow // 2)
    # What the common slow clients hold must be on a fast client, or it would be unique.
    fast_classes = [*dict.fromkeys(late_common)]
    for klass in fast_classes:
        left[klass] -= 1
    fast_classes += drawn(common, fast - len(fast_classes))
    return (*fast_classes, *drawn(rare, slow // 2), *late_common), frozenset(rare)


def accuracy(decisions: Iterable[dict[str, Any]]) -> dict[str, float | int | None]:
    """Return the share of right decisions, over all and by kind of client."""
    found = list(decisions)

    def share(which: Iterable[dict[str, Any]]) -> float | None:
        right = [d["judged_unique"] == d["unique"] for d in which]
        return fmean(right) if right else None

    return {
        "accuracy": share(found),
        "of_unique": share(d for d in found if d["unique"]),
        "of_common": share(d for d in found if not d["unique"]),
        "decisions": len(found),
    }


def run(
    name: str,
    root: str | None,
    device: str,
    seed: int,
    rounds: int,
    cohort: str,
    inner: Compensator,
    samples: int | None,
    rule: str = "mean",
) -> tuple[list[dict[str, Any]], float, float]:
    """Train with conversion of what is unique; return all decisions, accuracy and seconds."""
    setting = SETS[name]
    dataset = data.load(setting.get("data", name), root)
    fast, slow, samples = setting["fast"], setting["slow"], samples or setting["samples"]
    most = int(torch.bincount(dataset.y_train).min()) // samples
    classes, rare = draw_classes(fast, slow, 2, most, seed)
    asked: Cohort = WholeCohort() if cohort == "all" else SampledCohort(fast=10, slow=slow)
    spec = ScenarioSpec(
        GivenClasses(classes, samples),
        ConstantLatency(STALENESS, tuple(range(fast, fast + slow))),
        asked,
        overlap=True,
    )
    scenario = Scenario(spec, dataset, seed)
    model = models.build(
        setting["model"],
        dataset.input_shape,
        dataset.num_classes,
        seed=derive(seed, "model"),
        **setting.get("settings", {}),
    ).to(device)
    server = Server(
        model,
        local=LocalSpec(lr=setting["lr"], momentum=0.5, epochs=5),
        compensator=only_unique(inner, rule=rule),
        aggregator=FedAvg(),
        inputs=InputSpec(dataset.input_shape, dataset.num_classes, dataset.low, dataset.high),
        seed=seed,
    )
    simulation = Simulation(server, model, scenario, evaluate_every=10**9, device=device)
    watch = Watch(server)
    began = time.perf_counter()
    for _ in range(rounds):
        simulation.run_round()
    seconds = time.perf_counter() - began
    for decision in watch.decisions:
        decision["unique"] = classes[decision["client"]] in rare
    return watch.decisions, simulation.scores().accuracy, seconds


class Watch:
    """Sees what a server receives and reports: its decisions, and how near they were.

    Both rules' ratios of distances are computed beside the server, from whole vectors and
    whichever rule it goes by, to tell what another threshold would have decided; the
    decisions are the server's own.
    """

    def __init__(self, server: Server) -> None:
        self.decisions: list[dict[str, Any]] = []
        self._submit, self._step = server.submit, server.step
        self._version = lambda: server.version
        self._arrived: list[Update] = []
        self._fresh: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        server.submit = self.submit  # type: ignore[method-assign]
        server.step = self.step  # type: ignore[method-assign]

    def submit(self, update: Update) -> Receipt:
        """Note an update and pass it on."""
        self._arrived.append(update)
        return self._submit(update)

    def step(self, absent: Iterable[str] = ()) -> Report:
        """Step, and note what was decided."""
        now = self._version()
        report = self._step(absent)
        ratios = {}
        for update in self._arrived:
            if update.base_version < now:
                mean, each = self._fresh[update.base_version]
                own, others = distances(update.delta, mean)
                nearest = 1.0 - float((each @ unit(update.delta)).max())
                key = update.client_id, update.base_version
                ratios[key] = {"ratio": own / others, "nearest": nearest / others}
        fresh = [u.delta for u in self._arrived if u.base_version == now]
        each = torch.stack([unit(delta) for delta in fresh])
        self._fresh[now] = mean_direction(fresh), each
        self._fresh.pop(now - 2 * STALENESS, None)
        self._arrived = []
        for note in report.notes:
            decision = {
                "round": now,
                "client": int(note.client_id.rpartition("-")[2]),
                # Else "converted", or "fallback" where that was tried and failed.
                "judged_unique": note.kind != "kept",
                **ratios[note.client_id, note.base_version],
            }
            self.decisions.append(decision)
        return report


def by_threshold(
    decisions: Sequence[dict[str, Any]], key: str, thresholds: Sequence[float]
) -> dict[str, dict[str, Any]]:
    """Return what every threshold would have scored on the updates of this course.

    Example:
        >>> seen = [{"unique": True, "ratio": 1.1}, {"unique": False, "ratio": 1.03}]
        >>> {c: row["accuracy"] for c, row in by_threshold(seen, "ratio", (1.0, 1.04)).items()}
        {'1.0': 0.5, '1.04': 1.0}
    """
    return {
        str(c): accuracy([{**d, "judged_unique": d[key] > c} for d in decisions])
        for c in thresholds
    }


def table(decisions: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the accuracies from the paper's rounds on, and over the whole run."""
    rows = {}
    for start in AT:
        inside = [d for d in decisions if start <= d["round"] < start + WINDOW]
        if inside:
            rows[str(start)] = accuracy(inside)
    return {**rows, "all": accuracy(decisions)}


def main() -> None:
    """Run what was asked for, print the tables and write them."""
    from tables import PAPER  # beside this script

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sets", default="digits")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--rounds", type=int, default=220)
    parser.add_argument("--cohorts", default="all", help="all, sampled: who is asked in a round")
    parser.add_argument("--samples", type=int, help="of each client; by set when not given")
    parser.add_argument(
        "--inner",
        default="convert",
        choices=["convert", "first_order"],
        help="what is done to unique updates: first_order costs nothing, for a CPU",
    )
    parser.add_argument(
        "--rule",
        default="mean",
        choices=["mean", "nearest"],
        help="by which the server decides: mean is the paper's",
    )
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    require_clean(arguments.out)
    about = provenance([int(s) for s in arguments.seeds.split(",")], arguments.device)
    # Few iterations, one update: who is converted is of interest here, not how well.
    inner = (
        ConvertAll(Inversion(sparsity=0.95, warm_iterations=5, history=1))
        if arguments.inner == "convert"
        else FirstOrder()
    )
    results: dict[str, Any] = {}
    for name in arguments.sets.split(","):
        for cohort in arguments.cohorts.split(","):
            decisions: list[dict[str, Any]] = []
            seeds = [int(s) for s in arguments.seeds.split(",")]
            for seed in seeds:
                found, score, seconds = run(
                    name, arguments.data, arguments.device, seed,
                    arguments.rounds, cohort, inner, arguments.samples, arguments.rule,
                )  # fmt: skip
                decisions += [{**d, "seed": seed} for d in found]
                overall = accuracy(found)["accuracy"]
                print(
                    f"{name} {cohort} seed {seed}: model {score:.3f}, decisions {overall:.3f}, "
                    f"{seconds:.0f} s", flush=True,
                )  # fmt: skip
            rows = table(decisions)
            others = {key: by_threshold(decisions, key, at) for key, at in RULES.items()}
            which = [name, cohort, *(["nearest"] if arguments.rule == "nearest" else [])]
            results[", ".join(which)] = {"rounds": rows, "thresholds": others}
            print(f"{'from round':>10}{'accuracy':>10}{'unique':>8}{'common':>8}{'paper':>7}")
            for start, row in rows.items():
                paper = PAPER[start]
                cells = [row["accuracy"], row["of_unique"], row["of_common"]]
                print(f"{start:>10}{cells[0]:>10.3f}{cells[1]:>8.3f}{cells[2]:>8.3f}{paper:>7}")
            print("what else could be compared, over all rounds: accuracy, of unique, of common")
            for key, found in others.items():
                for c, row in found.items():
                    cells = [row["accuracy"], row["of_unique"], row["of_common"]]
                    print(f"{key:>8} > {c:<5}" + "".join(f"{cell:>8.3f}" for cell in cells))
            if arguments.out:
                write_result(arguments.out, about, results)


if __name__ == "__main__":
    main()
