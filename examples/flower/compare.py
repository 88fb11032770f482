"""Standing in for slow nodes: the app on Flower beside the same scenario in Unstale's simulator.

    python compare.py                                          Flower's simulation, three seeds
    python compare.py --flower deployment --out results        a SuperLink and SuperNodes here

Nodes, data, first weights, training and lateness are the same in both, and every round draws
all nodes. What is in the folder already is not run again; the table shows all of it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from slow_nodes import task
from slow_nodes.emulation import rounds_late
from tables import table

import unstale as us
from unstale.run_folder import Lines, Round
from unstale.run_folder.environment import describe_environment
from unstale.run_folder.provenance import provenance, public_command, require_clean, write_result
from unstale.sim import Scenario, ScenarioSpec, Simulation
from unstale.sim.cohort import WholeCohort
from unstale.sim.latency.plan import FixedPlan, Latency

HERE = Path(__file__).parent
NODES = 5
CONFIG = tomllib.loads((HERE / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
# What is compared: settings of the run, and whether Flower runs it as well. Real nodes take minutes
# for a run, so they do only what the comparison is about: with and without stand-ins.
CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "no delay": ({"method": "no_delay"}, False),
    "`convert`": ({"method": "convert"}, True),
    "`convert` without stand-ins": ({"method": "convert", "stand-in": False}, True),
    "`unweighted`": ({"method": "unweighted"}, False),
}
Record = dict[str, Any]


@dataclass
class AppPartition:
    """The app's partition, as the simulator asks for it."""

    config: dict[str, Any]

    def split(self, labels: Any, users: Any, seed: int) -> list[Any]:
        """Return the samples of every node."""
        return [task.partition_indices(n, NODES, self.config).numpy() for n in range(NODES)]


@dataclass
class AppLatency(Latency):
    """The app's lateness, likewise."""

    config: dict[str, Any]

    def plan(self, hist: Any, seed: int) -> FixedPlan:
        """Return how late every node is."""
        late = tuple(rounds_late(n, NODES, self.config) for n in range(NODES))
        return FixedPlan(late, tuple(n for n in range(NODES) if late[n]))


def on_flower(config: dict[str, Any], how: str) -> list[Round]:
    """Run the app on Flower: in its `simulation`, or as a `deployment` with real nodes."""
    names = ("method", "stand-in", "seed", "num-rounds", "late-rounds", "slow-nodes")
    names += ("close-fraction",)  # the scripts' own would let fast nodes be late
    chosen = " ".join(f"{name}={json.dumps(config[name])}" for name in names)
    command = [HERE / f"run_{how}.sh", *(["--plain"] if how == "deployment" else [])]
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            ["bash", *command, "--run-config", chosen],
            env={**os.environ, "FOLDER": folder, "NODES": str(NODES), "SLOW_SECONDS": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if ran.returncode:
            sys.exit(f"{command[0]} should end with 0. Found {ran.returncode}:\n{ran.stdout}")
        (path,) = Path(folder, "rounds").rglob("seed-*.jsonl")
        return list(Lines(path).read())


def in_the_simulator(config: dict[str, Any]) -> list[Round]:
    """Run the same without Flower."""
    spec = ScenarioSpec(AppPartition(config), AppLatency(config), cohort=WholeCohort())
    model = task.build_model(config)
    local, inputs = task.recipe(config)
    settings = {} if config["stand-in"] else {"stand_in": {"enabled": False}}
    method = us.method(config["method"], **settings)
    server = us.Server(model, method, local=local, inputs=inputs, seed=config["seed"])
    scenario = Scenario(spec, task.dataset(config), config["seed"])
    affected = [config["affected-class"]]
    simulation = Simulation(server, model, scenario, affected=affected, delayed=method.delayed)
    return [simulation.run_round() for _ in range(config["num-rounds"])]


def figures(lines: list[Round]) -> Record:
    """Return a run's accuracy, over all classes and in the affected one, and its stand-ins."""
    every = [line.accuracy or 0.0 for line in lines]
    affected = [line.affected_accuracy or 0.0 for line in lines]
    return {
        "accuracy": every[-1],
        "affected": affected[-1],
        "affected_second_half": mean(affected[len(affected) // 2 :]),
        "stand_ins": sum(len(line.stand_ins) for line in lines),
        "rounds": [[round(a, 4), round(b, 4)] for a, b in zip(every, affected, strict=True)],
        "seconds": round(sum(line.seconds for line in lines), 1),
    }


def run_case(name: str, seed: int, how: str, rounds: int, found: Record) -> None:
    """Run one case with one seed on both engines, unless a record has it."""
    changes, on_both = CASES[name]
    config = {**CONFIG, "seed": seed, "num-rounds": rounds, **changes}
    runs = {"simulator": lambda: in_the_simulator(config)}
    if on_both:
        runs[how] = lambda: on_flower(config, how)
    for engine, run in runs.items():
        cases = found.setdefault(engine, {})
        if name not in cases:
            about = describe_environment(torch.device("cpu"), public_command(["python", *sys.argv]))
            cases[name] = {**figures(run()), "config": config, "environment": about}
            print(f"{name}, seed {seed}, {engine}: done", file=sys.stderr, flush=True)


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flower", choices=["simulation", "deployment"], default="simulation")
    parser.add_argument("--seeds", default="20,21,22")
    parser.add_argument("--cases", default=",".join(CASES), help="of the methods, by their rows")
    parser.add_argument("--rounds", type=int, default=CONFIG["num-rounds"])
    parser.add_argument("--out", type=Path, help="where results go, one file for each seed")
    chosen = parser.parse_args()
    require_clean(chosen.out)
    torch.set_num_threads(1)  # as in the scripts
    records: dict[int, Record] = {}
    for name in chosen.cases.split(","):
        for seed in map(int, chosen.seeds.split(",")):
            path = chosen.out and chosen.out / f"{chosen.flower}-seed-{seed}.json"
            if seed not in records:
                kept = path.read_text() if path and path.exists() else "{}"
                records[seed] = json.loads(kept)
                records[seed].pop("about", None)
            run_case(name, seed, chosen.flower, chosen.rounds, records[seed])
            if path:
                write_result(path, provenance([seed]), records[seed])
    print(table([*records.values()]))


if __name__ == "__main__":
    main()
