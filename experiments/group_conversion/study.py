"""What does conversion lose if the server sees only sums of late updates?

*Error*: on a path without delay the ten late clients' updates are converted one by one, and as
sums of 3 and 10; the mean that goes into the model is compared with the mean of what the clients
would really send. *Effect*: the methods of `config.toml`, run end to end.

    python experiments/group_conversion/study.py --seeds 0 --out FILE
    python experiments/group_conversion/study.py --smoke --seeds 0 --out FILE
    python experiments/group_conversion/tables.py FILE
"""

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from tables import shown

from unstale.data import Dataset
from unstale.experiment import ExperimentConfig, load_data, load_experiment
from unstale.experiment.model import model_of
from unstale.experiment.prepare import inputs_of, prepare
from unstale.inversion import Inversion
from unstale.methods import Calibration, Compensator, ConvertAll, Identity, StandIn, in_groups
from unstale.params import Params, add, cosine_distance, l1_error, params_of, weighted_mean
from unstale.run_folder.provenance import provenance, require_clean, write_result
from unstale.seeding import generator
from unstale.sim import Scenario, Work, train_cohort
from unstale.updates import ServerView, TrainingTools, Update

HERE = Path(__file__).parent
BEGIN, ANSWERS = 10, 3


def ways(iterations: int | None = None) -> dict[str, Compensator]:
    """Return what is compared; estimates as they are: no trust is learned, nobody stood in for."""
    inversion = Inversion() if iterations is None else Inversion(iterations=iterations)
    plain = ConvertAll(inversion, StandIn(enabled=False), Calibration(enabled=False))
    return {"stale": Identity(), **{f"groups_of_{n}": in_groups(plain, n) for n in (1, 3, 10)}}


def error_rows(
    config: ExperimentConfig, data: Dataset, seed: int, iterations: int | None
) -> list[dict[str, Any]]:
    """Return the errors of the late clients' mean, for every way and answer."""
    compared = ways(iterations)
    scenario = Scenario(config.scenario, data, seed)
    model = model_of(config, scenario, None)
    latency = int(scenario.latency.typical(scenario.slow[0]))
    parts = [scenario.examples(client, 0) for client in range(scenario.num_clients)]
    tools = TrainingTools(model, inputs_of(model, data))
    states = {label: way.init() for label, way in compared.items()}
    path: list[Params] = [params_of(model)]
    sent: dict[int, list[Update]] = {}
    rows = []
    for version in range(BEGIN + ANSWERS * latency + 1):
        now = path[-1]
        work = [
            Work(now, data.x_train[i], data.y_train[i], generator(seed, "group", client, version))
            for client, i in enumerate(parts)
        ]
        true = train_cohort(model, work, config.local, batched=True)
        if late := sent.pop(version - latency, None):
            truth = _mean([true[c] for c in scenario.slow], late)
            for label, way in compared.items():
                view = ServerView(
                    version,
                    now,
                    lambda v: path[v],
                    config.local,
                    generator(seed, "server", version),
                    frozenset(range(version + 1)),
                    tools,
                )
                outcome = way.apply(late, states[label], view)
                states[label] = outcome.state
                used = _mean([update.delta for update in outcome.updates], outcome.updates)
                rows.append(
                    {
                        "way": label,
                        "seed": seed,
                        "answer": (version - latency - BEGIN) // latency,
                        "cosine": cosine_distance(used, truth),
                        "l1": l1_error(used, truth),
                    }
                )
        if version >= BEGIN and (version - BEGIN) % latency == 0:
            sent[version] = [
                Update(scenario.name(c), version, true[c], len(parts[c])) for c in scenario.slow
            ]
        path.append(add(now, weighted_mean(true, [float(len(i)) for i in parts])))
    return rows


def _mean(deltas: Sequence[Params], of: Sequence[Update]) -> Params:
    return weighted_mean(deltas, [float(update.num_examples) for update in of])


def effect_rows(config: ExperimentConfig, data: Dataset, seed: int) -> list[dict[str, Any]]:
    """Return the accuracies of every method, means over the last fifth of the rounds."""
    rows = []
    for method in config.methods:
        scenario = Scenario(config.scenario, data, seed)
        simulation = prepare(config, method, scenario, torch.device("cpu"))
        simulation.batched = True  # faster for a model as small as this
        lines = [simulation.run_round() for _ in range(config.rounds)]
        last = [line for line in lines if line.number > 0.8 * config.rounds]
        second = [line for line in lines if line.number > 0.5 * config.rounds]
        rows.append(
            {
                "method": method.label,
                "seed": seed,
                "accuracy": fmean(line.accuracy or 0.0 for line in last),
                "affected": fmean(line.affected_accuracy or 0.0 for line in last),
                "affected_half": fmean(line.affected_accuracy or 0.0 for line in second),
                "iterations": sum(line.iterations for line in lines),
            }
        )
    return rows


def smoke() -> ExperimentConfig:
    """Return the experiment made small: 2 rounds late, few iterations."""
    config = load_experiment(HERE, overrides=["latency.rounds=2", "rounds=5"])
    few = {"inversion.iterations": 3, "calibration.enabled": False}
    methods = [m.with_settings(few) if m.name == "convert" else m for m in config.methods]
    return dataclasses.replace(config, methods=tuple(methods))


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--seeds", type=lambda text: [int(w) for w in text.split(",")], default=[10, 11, 12]
    )
    parser.add_argument("--smoke", action="store_true", help="late by 2 rounds, in seconds")
    parser.add_argument("--device", default="cpu", choices=["cpu"], help="always the CPU")
    parser.add_argument("--data", help="not used: digits are embedded")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def main() -> None:
    """Run what was asked for, print the tables and write all rows."""
    arguments = parsed()
    require_clean(arguments.out)
    torch.set_num_threads(1)
    about = provenance(arguments.seeds)
    config, iterations = load_experiment(HERE), None
    if arguments.smoke:
        config, iterations = smoke(), 3
    data = load_data(config)
    errors: list[dict[str, Any]] = []
    effects: list[dict[str, Any]] = []
    for seed in arguments.seeds:
        errors += error_rows(config, data, seed, iterations)
        effects += effect_rows(config, data, seed)
        if arguments.out:  # what was measured outlives a run that is cut off
            write_result(arguments.out, about, {"errors": errors, "effects": effects})
        print(f"seed {seed}: done", flush=True)
    print(shown(errors, effects))


if __name__ == "__main__":
    main()
