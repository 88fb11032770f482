"""What the past updates of slow clients take in memory, beside a copy of base weights for each.

    python benchmarks/history_memory.py [--cases lenet:10,resnet18:10] [--out FILE]

Builds the state of `ConvertAll` with its default `inversion.history` for slow clients that
have sent as many updates as are remembered, and counts the bytes of its tensors, those that
are shared once. *Before* is the same state with a copy of the base weights in every past
update, as checkpoints had it, and as the memory was with versions on disk or after a resume.

Three schedules: *same* (all slow clients start from the same versions), *phases* (each works
for 40 rounds at a time and begins in a round of its own, drawn at random) and *apart* (no two
updates start from the same version: there nothing can be shared).
"""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import unstale as us
from unstale import models
from unstale.methods.conversion import ConvertAll
from unstale.params import Params, clone, params_of, scale
from unstale.run_folder.provenance import provenance, require_clean, write_result
from unstale.seeding import generator
from unstale.updates import State

SHAPES = {"lenet": (1, 28, 28), "resnet18": (3, 32, 32)}
SCHEDULES = ("same", "phases", "apart")
PERIOD = 40  # rounds from one update of a client to its next


def starts(schedule: str, clients: int, updates: int) -> list[list[int]]:
    """Return for each client the versions that its updates start from.

    Example:
        >>> starts("same", clients=2, updates=2)
        [[0, 40], [0, 40]]
        >>> starts("apart", clients=2, updates=2)
        [[0, 2], [1, 3]]
    """
    if schedule == "apart":
        return [[k * clients + c for k in range(updates)] for c in range(clients)]
    first = [0] * clients
    if schedule == "phases":
        rng = generator(0, "phases")
        first = torch.randint(0, PERIOD, (clients,), generator=rng).tolist()
    return [[f + k * PERIOD for k in range(updates)] for f in first]


def state_of(params: Params, schedule: str, clients: int) -> State:
    """Return the state after the slow clients have sent their updates."""
    method = ConvertAll()
    versions = starts(schedule, clients, method.inversion.history - 1)
    now = max(map(max, versions)) + 1
    view = us.ServerView(
        now,
        params,
        lambda _: clone(params),  # a copy on each call, as of a version that is read from disk
        us.LocalSpec(),
        generator(0, "server"),
    )
    state = method.init()
    for k in range(len(versions[0])):
        updates = [
            us.Update(f"c{c:03d}", row[k], scale(params, 0.01), 100)
            for c, row in enumerate(versions)
        ]
        state = method.watch(updates, state, view)
    return state


def copied(state: State) -> State:
    """Return the state with a copy of the base weights in every past update.

    Example:
        >>> w = {"w": torch.ones(1)}
        >>> past = [{"version": 1, "delta": w}]
        >>> clients = {"a": {"past": past}, "b": {"past": past}}
        >>> found = copied({"clients": clients, "bases": {"1": w}})
        >>> sorted(found["a"][0]), num_bytes(found)
        (['base', 'delta', 'version'], 12)
    """
    bases = state["bases"]
    return {
        client: [{**past, "base": clone(bases[str(past["version"])])} for past in entry["past"]]
        for client, entry in state["clients"].items()
    }


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield the tensors of a state."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from tensors_in(item)


def num_bytes(value: Any) -> int:
    """Return the bytes of all tensors of a state; those that are in several places count once."""
    return sum({t.data_ptr(): t.nbytes for t in tensors_in(value)}.values())


def row_of(model: str, schedule: str, clients: int) -> dict[str, Any]:
    """Measure one model under one schedule."""
    params = params_of(models.build(model, SHAPES[model], 10, seed=0))
    state = state_of(params, schedule, clients)
    deltas, bases = num_bytes(state["clients"]), num_bytes(state["bases"])
    assert num_bytes(state) == deltas + bases
    return {
        "model": model,
        "weights": sum(p.numel() for p in params.values()),
        "clients": clients,
        "schedule": schedule,
        "history": ConvertAll().inversion.history,
        "versions": len(state["bases"]),
        "deltas_bytes": deltas,
        "bases_bytes": bases,
        "before_bytes": num_bytes(copied(state)),
        "after_bytes": deltas + bases,
    }


def main() -> None:
    """Measure, print and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--cases",
        default="lenet:10,lenet:100,resnet18:10",
        help="models, each with its slow clients",
    )
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    require_clean(arguments.out)
    about = provenance([])
    rows = []
    print("model      clients  schedule  versions   deltas MB   bases MB   before MB   after MB")
    for case in arguments.cases.split(","):
        model, clients = case.split(":")
        for schedule in SCHEDULES:
            row = row_of(model, schedule, int(clients))
            rows.append(row)
            sizes = [row[f"{k}_bytes"] / 1e6 for k in ("deltas", "bases", "before", "after")]
            print(
                f"{model:10} {clients:>7}  {schedule:8}  {row['versions']:8} "
                + " ".join(f"{size:11.2f}" for size in sizes)
            )
    if arguments.out:
        write_result(arguments.out, about, {"rows": rows})


if __name__ == "__main__":
    main()
