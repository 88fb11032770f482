"""Training the clients of a round: one after the other, or stacked.

On a CPU a loop over clients is the fastest way. On a GPU the steps of a small model are
bound by kernel launches, so clients with equally many examples are stacked and trained
as one, from a CUDA graph where the same shape of cohort comes up again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call

from unstale.errors import ModelError
from unstale.params import Params
from unstale.training.client import client_update
from unstale.training.cuda_graphs import GraphCache
from unstale.training.local import LocalSpec, fast_layout
from unstale.training.model_checks import SideEffectGuard, model_faults
from unstale.training.vectorised import StackedClients, StackedTraining, shuffled_batches

# Longer trainings are not recorded: the graph would take more memory than it saves time.
MAX_CAPTURED_STEPS = 400
# From this many samples a step a client's kernels fill enough of a GPU to run on their own
# (LeNet, ten clients, H200: 450 samples 21 ms by vmap, 12 ms side by side; 100: 7.1, 4.9).
WORTH_A_STREAM = 100
GRAPHS = GraphCache(kept_per_model=8)
# Whether a model is a function of its weights, by the training modes of its layers.
_PURE: WeakKeyDictionary[nn.Module, dict[tuple[bool, ...], bool]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """One client's training: its start, its data and the generator that orders them."""

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
        batched: Stack clients of equal size (True) or loop (False); by device when None. Models
            with BatchNorm or dropout are trained in a loop.

    Returns:
        The change of weights and, where `Work.params` has them, of running statistics.
    """
    if batched is None:
        batched = bool(work) and work[0].x.is_cuda
    if not work or not batched or not is_pure(model, work[0]):
        return [client_update(model, w.params, w.x, w.y, spec, w.generator) for w in work]
    deltas: list[dict[str, Tensor]] = [{} for _ in work]
    by_size = sorted(range(len(work)), key=lambda i: len(work[i].x))
    for _, group in groupby(by_size, key=lambda i: len(work[i].x)):
        members = list(group)
        for i, delta in zip(
            members, train_stacked(model, [work[i] for i in members], spec), strict=True
        ):
            deltas[i] = delta
    return deltas


def is_pure(model: nn.Module, work: Work) -> bool:
    """Return whether a model is a function of its weights, as stacked training needs it.

    The first time it is tried on two samples, for layers that cannot be known by their types.
    """
    modes = tuple(module.training for module in model.modules())
    known = _PURE.setdefault(model, {})
    if modes not in known:
        known[modes] = not model_faults(model) and _passes(model, work)
    return known[modes]


def _passes(model: nn.Module, work: Work) -> bool:
    guard = SideEffectGuard(model)
    values = {**guard.buffers, **work.params}
    devices = [work.x.device] if work.x.is_cuda else []
    try:
        with torch.random.fork_rng(devices), torch.no_grad(), guard:
            functional_call(model, values, (fast_layout(work.x[:2]),))
    except ModelError:
        return False
    return True


def train_stacked(
    model: nn.Module, work: Sequence[Work], spec: LocalSpec
) -> list[dict[str, Tensor]]:
    """Train clients with equally many examples at once; return their updates."""
    # In the model's order: weights that were read back from disk come in any order, and what
    # a recorded graph returns has its own.
    names = [name for name, _ in model.named_parameters()]
    x = torch.stack([w.x for w in work])
    clients = StackedClients(
        weights={n: torch.stack([w.params[n] for w in work]) for n in names},
        buffers=dict(model.named_buffers()),
        x=x,
        y=torch.stack([w.y for w in work]),
        batches=shuffled_batches(spec, x.shape[1], [w.generator for w in work], x.device),
    )
    on_streams = _worth_streams(clients, spec)
    train = StackedTraining(model, spec, on_streams=on_streams)

    def deltas_of(clients: StackedClients) -> list[Tensor]:
        with torch.no_grad():
            trained = train(clients)
            return [trained[n] - clients.weights[n] for n in names]

    if spec.num_steps(x.shape[1]) <= MAX_CAPTURED_STEPS:
        deltas = GRAPHS.call(model, (spec, on_streams), deltas_of, clients)
    else:
        deltas = deltas_of(clients)
    return [{n: d[i] for n, d in zip(names, deltas, strict=True)} for i in range(len(work))]


def _worth_streams(clients: StackedClients, spec: LocalSpec) -> bool:
    """Tell whether streams of their own train these clients faster than `vmap`."""
    count, samples = clients.x.shape[:2]
    large = min(samples, spec.batch_size or samples) >= WORTH_A_STREAM
    return clients.x.is_cuda and large and spec.num_steps(samples) * count <= MAX_CAPTURED_STEPS
