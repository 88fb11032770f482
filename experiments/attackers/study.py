"""What do malicious clients do to the model, what do defences save, and what do these cost?

Every attack × every defence × `unweighted` and `convert`, in the scenario of `config.toml`. The
defences without attackers are the control: what they cost, above all in the affected class.

    python experiments/attackers/study.py --seeds 0 --out FILE
    python experiments/attackers/study.py --smoke --seeds 0 --out FILE
    python experiments/attackers/tables.py FILE
"""

import argparse
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from tables import shown

from unstale.data import Dataset
from unstale.experiment import load_data, load_experiment
from unstale.experiment.method_config import parse_methods
from unstale.experiment.prepare import prepare
from unstale.run_folder.provenance import provenance, require_clean, write_result
from unstale.sim import Scenario
from unstale.sim.attackers import Attack, NoAttackers, Random, Replayed, Scaled, SignFlipped

HERE = Path(__file__).parent
SHARE = 0.1
# Factors at which FedAvg was seen to fail on seeds 0 and 1; weaker ones do little harm.
ATTACKS: dict[str, Attack] = {
    "none": NoAttackers(),
    "scaled": Scaled(share=SHARE, factor=30.0),
    "sign_flipped": SignFlipped(share=SHARE, factor=5.0),
    "random": Random(share=SHARE, factor=100.0),
    "replayed": Replayed(share=SHARE, factor=10.0),
}
# Rules that are told a share are told the true one.
DEFENCES: dict[str, Any] = {
    "fedavg": "fedavg",
    "median": "median",
    "trimmed_mean": {"name": "trimmed_mean", "share": SHARE},
    "krum": {"name": "krum", "share": SHARE},
    "multi_krum": {"name": "multi_krum", "share": SHARE},
    "norm_bound": "norm_bound",
    "direction_bound": "direction_bound",
    "norm_bound+direction_bound": {"name": "norm_bound", "then": "direction_bound"},
}
METHODS = ("unweighted", "convert")


def runs(attacks: list[str], defences: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield attack, defence and method of every run.

    Example:
        >>> list(runs(["none"], ["median"]))
        [('none', 'median', 'unweighted'), ('none', 'median', 'convert')]
    """
    for attack in attacks:
        for defence in defences:
            for method in METHODS:
                yield attack, defence, method


def row_of(
    attack: str, defence: str, method: str, seed: int, rounds: int | None, data: Dataset
) -> dict[str, Any]:
    """Return accuracies of one run, means over its last fifth, and who was left out."""
    config = load_experiment(HERE)
    spec = dataclasses.replace(config.scenario, attackers=ATTACKS[attack])
    scenario = Scenario(spec, data, seed)
    (chosen,) = parse_methods([{"name": method, "aggregator": DEFENCES[defence]}])
    simulation = prepare(config, chosen, scenario, torch.device("cpu"))
    simulation.batched = True  # faster for a model as small as this
    rounds = rounds or config.rounds
    lines = []
    for number in range(rounds):
        line = simulation.run_round(evaluate_now=False)
        if number >= 0.8 * rounds:
            lines.append(line)
    return {
        "attack": attack,
        "defence": defence,
        "method": method,
        "seed": seed,
        "accuracy": fmean(line.accuracy or 0.0 for line in lines),
        "affected": fmean(line.affected_accuracy or 0.0 for line in lines),
    }


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])

    def words(text: str) -> list[str]:
        return text.split(",")

    def numbers(text: str) -> list[int]:
        return [int(word) for word in words(text)]

    parser.add_argument("--seeds", type=numbers, default=[10, 11, 12])
    parser.add_argument("--attacks", type=words, default=list(ATTACKS), help=", ".join(ATTACKS))
    parser.add_argument("--defences", type=words, default=list(DEFENCES), help=", ".join(DEFENCES))
    parser.add_argument("--smoke", action="store_true", help="a few rounds, to see that it works")
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
    data = load_data(load_experiment(HERE))
    rounds = 5 if arguments.smoke else None
    rows: list[dict[str, Any]] = []
    for seed in arguments.seeds:
        for attack, defence, method in runs(arguments.attacks, arguments.defences):
            rows.append(row_of(attack, defence, method, seed, rounds, data))
            if arguments.out:  # what was measured outlives a run that is cut off
                write_result(arguments.out, about, {"rows": rows})
        print(f"seed {seed}: done", flush=True)
    print(shown(rows))


if __name__ == "__main__":
    main()
