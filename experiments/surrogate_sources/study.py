"""Where should a stale client's surrogate data come from: its update, or its model?

Clients train a global model without delay. Updates of some of them are treated as if they
arrived late, and today's model is trained on surrogate data for each: found by conversion,
made by a generator, or optimised as inputs against the client's model. The result is compared
with what the client really computes today, by cosine distance and relative L1 error.

    python experiments/surrogate_sources/study.py --smoke
    python experiments/surrogate_sources/study.py --set mnist --data DIR --device cuda --out FILE
"""

import argparse
import dataclasses
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tables import errors
from ways import Shares, ways

from unstale import LocalSpec, data, models
from unstale.check import Client, Measured, Trial, run_trial
from unstale.inversion import InputSpec
from unstale.params import params_of
from unstale.run_folder.provenance import provenance, require_clean, write_result
from unstale.seeding import derive
from unstale.sim.partition import DirichletLabels, OneClass, Partition

STALENESS = (5, 20, 50)


@dataclasses.dataclass(frozen=True)
class Setting:
    """A data set as clients train on it: five full-batch steps, as in the paper."""

    model: str
    lr: float
    clients: int = 30
    samples: int = 450
    data: str = ""
    """The data set, if its name is not the setting's."""
    hidden: tuple[int, ...] = ()
    """The hidden layers, if the model is `mlp`."""

    @property
    def local(self) -> LocalSpec:
        """The recipe that clients run."""
        return LocalSpec(lr=self.lr, momentum=0.5, epochs=5)

    def partition(self, kind: str) -> Partition:
        """Return who holds what: one class each, or Dirichlet(0.1) mixes."""
        if kind == "one_class":
            return OneClass(self.clients, self.samples)
        return DirichletLabels(self.clients, self.samples, 0.1)


SETS = {
    "digits": Setting("digits", lr=0.2, samples=40),
    "mnist": Setting("lenet", lr=0.01),
    "fashion_mnist": Setting("lenet", lr=0.01),
    # Small enough for a CPU.
    "mnist_mlp": Setting("mlp", lr=0.05, samples=40, data="mnist", hidden=(64,)),
}
SCENARIOS = ("one_class", "dirichlet")


def shares_of(clients: Sequence[Client], classes: int) -> Shares:
    """Return the share of each class that clients hold, by client.

    Example:
        >>> y = torch.tensor([0, 0, 0, 2])
        >>> shares_of([Client(torch.zeros(4, 1), y)], classes=3)
        {'0': (0.75, 0.0, 0.25)}
    """
    counts = [torch.bincount(c.y.cpu(), minlength=classes).tolist() for c in clients]
    return {str(i): tuple(n / sum(mine) for n in mine) for i, mine in enumerate(counts)}


def row_of(one: Measured, way: str) -> dict[str, Any]:
    """Return the row of a measurement; the way `stale` is the update as it came."""
    found = one.stale if way == "stale" else one.used
    row = {
        "way": way,
        "client": one.client,
        "arrival": one.arrival,
        "error": _number(found.cosine),
        "l1": _number(found.l1),
        "norms": _number(found.norms),
    }
    if way == "stale":
        return row
    done = {"kinds": " ".join(one.kinds), "start": one.detail.get("start")}
    return {**row, **done, "seconds": _number(one.seconds)}


def _number(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None


def measured(arguments: argparse.Namespace, scenario: str, seed: int, tau: int) -> list[dict]:
    """Return the rows of one trial."""
    setting = SETS[arguments.set]
    whole = data.load(setting.data or arguments.set, arguments.data)
    labels = whole.y_train.numpy()
    parts = setting.partition(scenario).split(labels, None, derive(seed, "partition"))
    inputs = InputSpec(whole.input_shape, whole.num_classes, whole.low, whole.high)
    device = torch.device(arguments.device)
    clients = [Client(whole.x_train[p].to(device), whole.y_train[p].to(device)) for p in parts]
    model = models.build(
        setting.model,
        whole.input_shape,
        whole.num_classes,
        seed=derive(seed, "model"),
        **({"hidden": setting.hidden} if setting.hidden else {}),
    ).to(device)
    found = run_trial(
        model,
        clients,
        Trial(
            tuple(range(arguments.slow)),
            tau,
            begin=arguments.begin,
            arrivals=arguments.arrivals,
            every=arguments.every,
            seed=seed,
        ),
        ways(shares_of(clients, whole.num_classes), arguments.ways, arguments.iterations),
        local=setting.local,
        inputs=inputs,
        start=params_of(model),
    )
    about = {"set": arguments.set, "scenario": scenario, "seed": seed, "tau": tau}
    stale = [one for one in found if one.label == found[0].label]
    return [
        *({**about, **row_of(one, "stale")} for one in stale),
        *({**about, **row_of(one, one.label)} for one in found),
    ]


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the arguments; `--smoke` is a choice of them that takes seconds.

    Example:
        >>> parsed(["--smoke"]).tau, parsed(["--tau", "5,20"]).tau
        ([3], [5, 20])
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])

    def numbers(text: str) -> list[int]:
        return [int(word) for word in text.split(",")]

    parser.add_argument("--smoke", action="store_true", help="digits in seconds, few iterations")
    parser.add_argument("--set", default="digits", choices=sorted(SETS))
    parser.add_argument("--data", help="the data folder")
    parser.add_argument("--scenario", default=",".join(SCENARIOS), help=", ".join(SCENARIOS))
    parser.add_argument("--tau", type=numbers, default=list(STALENESS), help="stalenesses")
    parser.add_argument("--seeds", type=numbers, default=[10, 11, 12])
    parser.add_argument("--ways", default="main", choices=("main", "all"))
    parser.add_argument("--slow", type=int, default=3, help="late clients")
    parser.add_argument("--begin", type=int, default=10, help="version of their first update")
    parser.add_argument("--arrivals", type=int, default=4, help="updates of each of them")
    parser.add_argument("--every", type=int, default=5, help="versions between two of them")
    parser.add_argument("--iterations", type=int, help="of every fit; else the defaults")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    words = sys.argv[1:] if words is None else words
    if "--smoke" in words:
        small = {"seeds": [0], "tau": [3], "slow": 1, "begin": 2, "arrivals": 2, "every": 2}
        parser.set_defaults(**small, iterations=5, scenario="one_class")
    return parser.parse_args(words)


def main() -> None:
    """Run what was asked for, print the table and write all rows."""
    arguments = parsed()
    require_clean(arguments.out)
    about = provenance(arguments.seeds, arguments.device)
    rows: list[dict] = []
    for scenario in arguments.scenario.split(","):
        for seed in arguments.seeds:
            for tau in arguments.tau:
                rows += measured(arguments, scenario, seed, tau)
                print(f"{arguments.set} {scenario}, seed {seed}, τ = {tau}: done", flush=True)
                if arguments.out:  # what was measured outlives a run that is cut off
                    write_result(arguments.out, about, {"rows": rows})
    print(errors(rows))


if __name__ == "__main__":
    main()
