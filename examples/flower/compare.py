"""The app in Flower's simulation beside the same scenario in Unstale's own simulator.

    python compare.py --methods unweighted,convert --seeds 4 --simulator-seeds 8

Nodes, data, first weights, training and lateness are the same; which nodes a round asks is
drawn by each engine for itself. So the figures should agree up to what chance does.
"""

import argparse
import os
import subprocess
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from slow_nodes import task
from slow_nodes.emulation import rounds_late

import unstale as us
from unstale.run_folder import Lines
from unstale.sim import Scenario, ScenarioSpec, Simulation
from unstale.sim.cohort import SampledCohort
from unstale.sim.latency.plan import FixedPlan, Latency

HERE = Path(__file__).parent
NODES = 30
Scores = list[tuple[float, float]]  # accuracy and affected accuracy, round by round


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


def on_flower(config: dict[str, Any]) -> Scores:
    """Run the app in Flower's simulation."""
    with tempfile.TemporaryDirectory() as folder:
        chosen = f'method="{config["method"]}" seed={config["seed"]}'
        subprocess.run(
            [HERE / "run_simulation.sh", "--run-config", chosen],
            env={**os.environ, "FOLDER": folder, "NODES": str(NODES)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        (path,) = Path(folder, "rounds").rglob("seed-*.jsonl")
        lines = Lines(path).read()
    return [(line.accuracy, line.affected_accuracy) for line in lines]


def in_the_simulator(config: dict[str, Any]) -> Scores:
    """Run the same without Flower."""
    spec = ScenarioSpec(
        partition=AppPartition(config),
        latency=AppLatency(config),
        cohort=SampledCohort(size=int(NODES * config["fraction-train"])),
    )
    model = task.build_model(config)
    local, inputs = task.recipe(config)
    server = us.Server(model, config["method"], local=local, inputs=inputs, seed=config["seed"])
    scenario = Scenario(spec, task.dataset(config), config["seed"])
    simulation = Simulation(server, model, scenario, affected=[config["affected-class"]])
    lines = [simulation.run_round() for _ in range(config["num-rounds"])]
    return [(line.accuracy, line.affected_accuracy) for line in lines]


def figures(scores: Scores) -> tuple[float, float, float]:
    """Return both accuracies over the last fifth, and the affected one over the second half."""
    end, half = scores[-len(scores) // 5 :], scores[len(scores) // 2 :]
    return mean(a for a, _ in end), mean(f for _, f in end), mean(f for _, f in half)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", default="unweighted,convert")
    parser.add_argument("--seeds", type=int, default=4, help="how many, on Flower")
    parser.add_argument("--simulator-seeds", type=int, default=8, help="it is faster")
    chosen = parser.parse_args()
    defaults = tomllib.loads((HERE / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    engines = (
        ("Flower", on_flower, chosen.seeds),
        ("simulator", in_the_simulator, chosen.simulator_seeds),
    )
    print("| method | engine | seeds | accuracy | affected | affected mean |")
    print("| --- | --- | --- | --- | --- | --- |")
    for method in chosen.methods.split(","):
        for name, run, seeds in engines:
            per_seed = [
                figures(run({**defaults, "method": method, "seed": s})) for s in range(seeds)
            ]
            cells = [
                f"{mean(one):.3f}" + (f" ± {stdev(one):.3f}" if seeds > 1 else "")
                for one in zip(*per_seed, strict=True)
            ]
            print(f"| `{method}` | {name} | {seeds} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
