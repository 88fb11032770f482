"""Training a cohort: one client after the other, or all at once.

On a CPU a loop is the fastest way. On a GPU a small model's steps are bound by
kernel launches, so clients with equally many examples are stacked and trained
as one: by `vmap` where batches are small, on streams side by side where they are
large. All run the loop of `unstale.training.local.train` and agree to rounding.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from unstale.params import Params
from unstale.sim import capture
from unstale.sim.streams import OneGradient, side_by_side
from unstale.training.local import LocalSpec, local_update, train
from unstale.training.losses import resolve_loss
from unstale.training.model_checks import trainable_names

# Longer trainings are not recorded: the graph would take more memory than it saves time.
MAX_CAPTURED_STEPS = 400
# From this many samples a step a client's kernels fill enough of a GPU to run on their own
# (LeNet, ten clients, H200: 450 samples 21 ms by vmap, 12 ms side by side; 100: 7.1, 4.9).
WORTH_A_STREAM = 100


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """One client's training: where it starts, on what, and in which order."""

    params: Params
    x: Tensor
    y: Tensor
    generator: torch.Generator


def train_cohort(
    model: nn.Module, work: Sequence[Work], spec: LocalSpec, *, batched: bool | None = None
) -> list[dict[str, Tensor]]:
    """Return every client's delta, in the order of `work`.

    Args:
        model: The structure that all clients train.
        work: What each client trains; weights may differ from client to client.
        spec: The recipe.
        batched: Stack clients of equal size (True) or loop (False); by device when None.
    """
    if batched is None:
        batched = bool(work) and work[0].x.is_cuda
    if not batched:
        return [local_update(model, w.params, w.x, w.y, spec, w.generator) for w in work]
    deltas: list[dict[str, Tensor]] = [{} for _ in work]
    by_size = sorted(range(len(work)), key=lambda i: len(work[i].x))
    for _, group in groupby(by_size, key=lambda i: len(work[i].x)):
        members = list(group)
        for i, delta in zip(
            members, _train_stacked(model, [work[i] for i in members], spec), strict=True
        ):
            deltas[i] = delta
    return deltas


def _train_stacked(
    model: nn.Module, work: Sequence[Work], spec: LocalSpec
) -> list[dict[str, Tensor]]:
    names = trainable_names(model)
    buffers = dict(model.named_buffers())
    loss_fn = resolve_loss(spec.loss)

    def loss(trained: Params, fixed: Params, x: Tensor, y: Tensor) -> Tensor:
        return loss_fn(functional_call(model, {**fixed, **trained, **buffers}, (x,)), y)

    gradients = _stacked(grad(loss), work, spec)

    def gradient(current: Params, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        trained = {n: current[n] for n in names}
        fixed = {n: p for n, p in current.items() if n not in trained}
        found: dict[str, Tensor] = gradients(trained, fixed, x, y)
        return found

    x, y = torch.stack([w.x for w in work]), torch.stack([w.y for w in work])
    # The model's order, not that of the mapping: weights read back from disk come in any
    # order, and a recorded graph of the same shapes would take one for the other.
    order = [name for name, _ in model.named_parameters()]
    start = [torch.stack([w.params[n] for w in work]) for n in order]
    batches = [None if b is None else b.to(x.device) for b in _stacked_batches(work, spec)]

    def run(tensors: Sequence[Tensor]) -> list[Tensor]:
        given, rest = dict(zip(order, tensors, strict=False)), list(tensors[len(order) :])
        own_x, own_y, indices = rest[0], rest[1], iter(rest[2:])
        steps = (None if b is None else next(indices) for b in batches)
        with torch.no_grad():
            trained = train(given, own_x, own_y, spec, gradient, names, steps)
            return [trained[n] - given[n] for n in order]

    inputs = [*start, x, y, *(b for b in batches if b is not None)]
    if x.is_cuda and len(batches) <= MAX_CAPTURED_STEPS:
        modes = tuple(m.training for m in model.modules())
        moved = capture.call(model, (spec, names, modes, len(batches)), run, inputs)
    else:
        moved = run(inputs)
    return [{n: p[i] for n, p in zip(order, moved, strict=True)} for i in range(len(work))]


def _stacked(one: OneGradient, work: Sequence[Work], spec: LocalSpec) -> OneGradient:
    """Return the faster form of a gradient for all clients at once."""
    samples = len(work[0].x)
    steps = spec.num_steps(samples) * len(work)
    large = min(samples, spec.batch_size or samples) >= WORTH_A_STREAM
    if work[0].x.is_cuda and large and steps <= MAX_CAPTURED_STEPS:
        return side_by_side(one)
    return vmap(one)


def _stacked_batches(work: Sequence[Work], spec: LocalSpec) -> Iterator[Tensor | None]:
    """Yield each step's indices for all clients as `[clients, samples]`."""
    each = [spec.batches(len(w.x), w.generator) for w in work]
    for indices in zip(*each, strict=True):
        whole = [index for index in indices if index is not None]
        yield torch.stack(whole) if whole else None
