"""The federation that an audit looks at: versions of a global model, and attacked clients' updates.

All clients train every version without delay, as in a trial (`unstale.check.trial`); only the
weights of some versions are kept, from which the attacked clients train.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from unstale.check.trial import Client
from unstale.inversion.request import Sent
from unstale.params import Params, add, clone, weighted_mean
from unstale.privacy import Protection, protect
from unstale.seeding import generator
from unstale.sim.training import Work, train_cohort
from unstale.training.local import LocalSpec, local_update


def versions_of(
    model: nn.Module,
    clients: Sequence[Client],
    wanted: Sequence[int],
    *,
    local: LocalSpec,
    start: Params,
    seed: int = 0,
) -> list[Params]:
    """Return the weights of the wanted versions, in order, of a model trained by all clients."""
    params: Params = clone(start)
    found = []
    for version in range(max(wanted) + 1):
        if version in wanted:
            found.append(params)
        if version == max(wanted):
            break
        work = [
            Work(params, c.x, c.y, generator(seed, "trial", i, version))
            for i, c in enumerate(clients)
        ]
        updates = train_cohort(model, work, local)
        params = add(params, weighted_mean(updates, [float(len(c.x)) for c in clients]))
    return found


def sent_updates(
    model: nn.Module,
    versions: Sequence[Params],
    x: Tensor,
    y: Tensor,
    *,
    local: LocalSpec,
    protection: Protection,
    seed: int = 0,
) -> list[Sent]:
    """Return what a client sends from each version: `(base, delta)`, protected before it leaves."""
    found: list[Sent] = []
    for i, base in enumerate(versions):
        shuffles = generator(seed, "audit", "training", i)
        with torch.no_grad():
            delta = local_update(model, base, x, y, local, shuffles)
        noise = generator(seed, "audit", "noise", i)
        found.append((base, protect(delta, protection, noise)))
    return found
