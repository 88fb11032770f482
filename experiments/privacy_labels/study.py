"""Which labels can a server tell: by the surrogate, and by the last layer of the update alone?

Clients hold a few classes each. Their updates are seen as they are, 95 % sparse, or 95 % sparse
with noise, and three ways tell how many samples of each class a client holds: the labels that our
inversion learns, the last layer's gradient over the steps of the update, and guessing that classes
are even. What counts is the share of labels that are right.

    python experiments/privacy_labels/study.py --smoke
    python experiments/privacy_labels/study.py --set mnist --data DIR --device cuda --out FILE
"""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from unstale.audit.attacks import (
    converted_surrogates,
    label_counts,
    label_overlap,
    single_label,
    step_size,
)
from unstale.audit.federation import sent_updates, versions_of
from unstale.check.trial import Client
from unstale.experiment import load_experiment
from unstale.experiment.load_data import load_data
from unstale.experiment.model import model_for
from unstale.experiment.prepare import inputs_of
from unstale.inversion import preset
from unstale.inversion.hard_labels import whole_counts
from unstale.inversion.surrogate import grey
from unstale.params import params_of
from unstale.privacy import Protection
from unstale.run_folder.provenance import provenance, require_clean, write_result
from unstale.seeding import derive, generator
from unstale.sim import Scenario

TABLE = Path(__file__).resolve().parents[1] / "main_table"
SETS = {
    "digits": "quickstart",
    "mnist": str(TABLE / "mnist.toml"),
    "cifar10": str(TABLE / "cifar10.toml"),
}
# Sparsity, and the variance of noise on the scale of a gradient.
PROTECTIONS = {
    "none": (0.0, 0.0),
    "95 %": (0.95, 0.0),
    "noise": (0.0, 1e-3),
    "95 % + noise": (0.95, 1e-3),
}
PROBES = 64


def told(counts: Tensor, client: Client, classes: int) -> float:
    """Return the share of a client's labels that are right.

    Example:
        >>> told(torch.tensor([2, 0]), Client(torch.zeros(2, 1), torch.tensor([0, 1])), 2)
        0.5
    """
    return label_overlap(counts, torch.bincount(client.y, minlength=classes))


def measured(arguments: argparse.Namespace, seed: int, epochs: int) -> list[dict[str, Any]]:
    """Return the rows of one number of local epochs: by size, protection and way."""
    config = load_experiment(SETS[arguments.set], overrides=(f"local.epochs={epochs}",))
    device = torch.device(arguments.device)
    whole = load_data(config, arguments.data)
    model = model_for(config, whole, seed, arguments.data)[0].to(device)
    inputs, classes = inputs_of(model, whole), whole.num_classes
    scenario = Scenario(config.scenario, whole, seed)
    held = [torch.as_tensor(scenario.examples(c, 0)) for c in range(arguments.clients)]
    clients = [Client(whole.x_train[i].to(device), whole.y_train[i].to(device)) for i in held]
    versions = versions_of(
        model, clients, arguments.versions, local=config.local, start=params_of(model), seed=seed
    )
    probes = grey(inputs, PROBES, 0.25, generator(seed, "privacy", "probes")).x.to(device)
    rows = []
    for size in arguments.sizes:
        victims = [Client(c.x[:size], c.y[:size]) for c in clients[: arguments.attacked]]
        scale = step_size(config.local, size) or config.local.lr
        for name in arguments.protections:
            sparsity, variance = PROTECTIONS[name]
            protection = Protection(sparsity=sparsity, noise_variance=variance * scale**2)
            sent = [
                sent_updates(
                    model, versions, c.x, c.y, local=config.local, protection=protection,
                    seed=derive(seed, "privacy", i),
                )
                for i, c in enumerate(victims)
            ]  # fmt: skip
            counts = [len(c.x) for c in victims]
            changes = {"iterations": arguments.iterations} if arguments.iterations else {}
            settings = preset("default", sparsity=sparsity, max_loss=1e9, **changes)
            made = converted_surrogates(
                model, sent, counts, local=config.local, inputs=inputs, settings=settings, seed=seed
            )
            ways: dict[str, list[float]] = {"learned": [], "last layer": [], "even": []}
            for own, client, surrogate in zip(sent, victims, made, strict=True):
                n = len(client.x)
                even = torch.full((classes,), n / classes)
                ways["even"].append(told(even, client, classes))
                if n == 1:  # the sign rule, which needs no probes
                    one = torch.zeros(classes)
                    one[single_label(model, own[-1][1], classes)] = 1
                    ways["last layer"].append(told(one, client, classes))
                else:
                    guess = label_counts(
                        model, *own[-1], local=config.local, num_examples=n, classes=classes,
                        probes=probes,
                    )  # fmt: skip
                    ways["last layer"].append(told(guess, client, classes))
                if surrogate.last is not None:
                    shares = surrogate.last.labels.mean(0)
                    ways["learned"].append(told(whole_counts(shares, n), client, classes))
            for way, values in ways.items():
                share = float(f"{fmean(values):.5g}") if values else None
                about = {"epochs": epochs, "samples": size, "protection": name, "way": way}
                rows.append({**about, "right": share, "clients": len(values)})
                print(f"{arguments.set}, seed {seed}: {rows[-1]}", flush=True)
    return rows


def as_tree(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return shares by epochs, size, way and protection, for tables.

    Example:
        >>> row = {"epochs": 5, "samples": 1, "protection": "none", "way": "even", "right": 0.1}
        >>> as_tree([row])
        {'5': {'1': {'even': {'none': 0.1}}}}
    """
    tree: dict[str, Any] = {}
    for row in rows:
        if row["right"] is not None and math.isfinite(row["right"]):
            steps = tree.setdefault(str(row["epochs"]), {})
            ways = steps.setdefault(str(row["samples"]), {})
            ways.setdefault(row["way"], {})[row["protection"]] = row["right"]
    return tree


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the arguments; `--smoke` is a choice of them that takes seconds.

    Example:
        >>> parsed(["--smoke"]).sizes, parsed(["--sizes", "1,16"]).sizes
        ([2], [1, 16])
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])

    def numbers(text: str) -> list[int]:
        return [int(word) for word in text.split(",")]

    def protections(text: str) -> list[str]:
        found = [word.strip() for word in text.split(",")]
        if wrong := set(found) - set(PROTECTIONS):
            raise argparse.ArgumentTypeError(f"{sorted(wrong)} are none of {list(PROTECTIONS)}")
        return found

    parser.add_argument("--smoke", action="store_true", help="digits in seconds")
    parser.add_argument("--set", default="digits", choices=sorted(SETS))
    parser.add_argument("--data", help="the data folder")
    parser.add_argument("--seeds", type=numbers, default=[10])
    parser.add_argument("--sizes", type=numbers, default=[1, 4, 16, 64, 450], help="of clients")
    parser.add_argument("--epochs", type=numbers, default=[1, 5, 50], help="local epochs")
    parser.add_argument("--versions", type=numbers, default=[10, 15, 20], help="that they train")
    parser.add_argument("--clients", type=int, default=20, help="that train the model")
    parser.add_argument("--attacked", type=int, default=8, help="of them")
    parser.add_argument("--protections", type=protections, default=list(PROTECTIONS))
    parser.add_argument("--iterations", type=int, help="of a first fit; else its default")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    words = sys.argv[1:] if words is None else words
    if "--smoke" in words:
        small = {"seeds": [0], "sizes": [2], "epochs": [1], "versions": [1], "clients": 4}
        parser.set_defaults(**small, attacked=2, iterations=30)
    return parser.parse_args(words)


def main() -> None:
    """Run what was asked for and write all rows."""
    arguments = parsed()
    require_clean(arguments.out)
    about = provenance(arguments.seeds, arguments.device)
    if len(arguments.seeds) != 1:
        raise SystemExit("--seeds should be one seed: a result file has one.")
    rows: list[dict[str, Any]] = []
    for epochs in arguments.epochs:
        rows += measured(arguments, arguments.seeds[0], epochs)
        if arguments.out:  # what was measured outlives a run that is cut off
            write_result(arguments.out, about, {"right": as_tree(rows), "rows": rows})


if __name__ == "__main__":
    main()
