"""Baselines: what a server that has seen no update could show, beside what it recovered.

A measure of recovered inputs says little alone: two fives are alike. Each baseline has as
many inputs as the recovered set and is matched one-to-one in the same way.
"""

import torch
from torch import Tensor

from unstale.audit.attacks.last_layer import labels_of_counts
from unstale.inversion import InputSpec
from unstale.seeding import generator

NOISE, MEAN, HELD_OUT = "random noise", "class mean", "held-out sample"


def baselines(
    count: int,
    y: Tensor,
    references: tuple[Tensor, Tensor],
    *,
    inputs: InputSpec,
    seed: int = 0,
) -> dict[str, Tensor]:
    """Return inputs that know nothing of a client but the shares of its classes, by name.

    Args:
        count: How many, as many as were recovered.
        y: The client's labels.
        references: Held-out inputs and labels, which are not among those that an original
            is looked for in.
        inputs: What one input looks like, with bounds.
        seed: Draws noise and samples.

    Returns:
        `noise`, uniform within the bounds; `class mean`, the mean of the class; `held-out
        sample`, a sample of the class that no client holds. What has no reference is left out.
    """
    rng = generator(seed, "audit", "baselines")
    low, high = inputs.low or 0.0, 1.0 if inputs.high is None else inputs.high
    noise = low + (high - low) * torch.rand(count, *inputs.shape, generator=rng)
    found = {NOISE: noise.to(references[0])}
    counts = torch.bincount(y, minlength=inputs.classes)
    classes = labels_of_counts(counts, count).tolist()
    own = {c: references[0][references[1] == c] for c in set(classes)}
    if all(len(x) for x in own.values()):
        found[MEAN] = torch.stack([own[c].mean(0) for c in classes])
        found[HELD_OUT] = torch.cat(
            [_drawn(own[c], classes.count(c), rng) for c in sorted(set(classes))]
        )
    return found


def split_held_out(
    x: Tensor, y: Tensor, seed: int = 0
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return two disjoint halves of held-out samples: references, and candidates to look among."""
    order = torch.randperm(len(x), generator=generator(seed, "audit", "held out")).to(x.device)
    ranked = order[y[order].sort(stable=True).indices]  # by class, in random order within
    halves = ranked[::2], ranked[1::2]
    return (x[halves[0]], y[halves[0]]), (x[halves[1]], y[halves[1]])


def _drawn(x: Tensor, count: int, rng: torch.Generator) -> Tensor:
    """Return so many samples, each at most once as long as there are enough."""
    turns = -(-count // len(x))
    order = torch.cat([torch.randperm(len(x), generator=rng) for _ in range(turns)])
    return x[order[:count].to(x.device)]
