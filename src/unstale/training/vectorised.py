"""Local training of several clients at once: the vectorised form of `local_update`.

Clients with equally many samples are stacked, and one step trains all of them. The
simulator trains cohorts by it and the inversion differentiates through it. It runs the
loop of `unstale.training.local.train` and agrees with `local_update` to rounding.

Everything that a training reads is in `StackedClients`, so that a CUDA graph of it can
own every tensor.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from unstale.params import Params
from unstale.training.local import GradientFn, train
from unstale.training.losses import resolve_loss
from unstale.training.model_checks import trainable_names
from unstale.training.spec import LocalSpec
from unstale.training.streams import Gradient, side_by_side


@dataclass(frozen=True, slots=True, eq=False)
class StackedClients:
    """What several clients train, as stacked tensors on one device."""

    weights: Params
    """The weights that each client starts from `[clients, ...]`, by name."""
    buffers: Params
    """The model's buffers, the same for all clients, by name."""
    x: Tensor
    """Inputs `[clients, samples, ...]`."""
    y: Tensor
    """Class indices `[clients, samples]` or soft labels `[clients, samples, classes]`."""
    batches: tuple[Tensor, ...] = ()
    """The sample indices of each step: `[clients, batch]`, or `[batch]` where all clients take
    the same. Empty: every step takes all samples."""


class StackedTraining:
    """The training of stacked clients by one recipe.

    It cannot watch for side effects of the model as `local_update` does (that reads the
    state of the random generators, which a CUDA graph forbids): run that once before.

    Args:
        model: The structure that all clients train.
        spec: The recipe.
        on_streams: Whether each client's gradients are taken on a CUDA stream of its own,
            instead of all at once by `vmap`.
        names: The parameters that are trained; by default all that require a gradient.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> weights = {n: torch.zeros(3, *p.shape) for n, p in model.named_parameters()}
        >>> clients = StackedClients(weights, {}, torch.ones(3, 5, 2), torch.zeros(3, 5).long())
        >>> StackedTraining(model, LocalSpec(lr=0.1))(clients)["bias"][0]
        tensor([ 0.0500, -0.0500])
    """

    def __init__(
        self,
        model: nn.Module,
        spec: LocalSpec,
        *,
        on_streams: bool = False,
        names: tuple[str, ...] | None = None,
    ) -> None:
        self._spec = spec
        self._names = trainable_names(model) if names is None else names
        loss_fn = resolve_loss(spec.loss)

        def loss(trained: Params, fixed: Params, buffers: Params, x: Tensor, y: Tensor) -> Tensor:
            return loss_fn(functional_call(model, {**trained, **fixed, **buffers}, (x,)), y)

        one: Gradient = grad(loss)
        self._gradients: Gradient = (
            side_by_side(one) if on_streams else vmap(one, in_dims=(0, 0, None, 0, 0))
        )

    def __call__(self, clients: StackedClients) -> dict[str, Tensor]:
        """Return the trained weights `[clients, ...]`, by name."""
        return train_stacked(clients, self._spec, self.step_gradient(clients.buffers), self._names)

    def step_gradient(self, buffers: Params) -> GradientFn:
        """Return the gradient of one step's loss for stacked weights and batches."""

        def gradient(current: Params, x: Tensor, y: Tensor) -> dict[str, Tensor]:
            trained = {n: current[n] for n in self._names}
            fixed = {n: p for n, p in current.items() if n not in trained}
            return dict(self._gradients(trained, fixed, buffers, x, y))

        return gradient


def train_stacked(
    clients: StackedClients, spec: LocalSpec, gradient: GradientFn, names: tuple[str, ...]
) -> dict[str, Tensor]:
    """Run the recipe's steps on stacked clients; return the trained weights by name.

    Args:
        clients: What is trained.
        spec: The recipe.
        gradient: Returns the gradients of one batch `[clients, ...]`, by name.
        names: The parameters that are trained.
    """
    steps = len(clients.batches) or spec.num_steps(clients.x.shape[1])
    left = iter(clients.batches)

    def on_batch(current: Params, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        if (index := next(left, None)) is None:
            return gradient(current, x, y)
        return gradient(current, _batch(x, index), _batch(y, index))

    whole: Iterator[Tensor | None] = itertools.repeat(None, steps)
    return train(clients.weights, clients.x, clients.y, spec, on_batch, names, whole)


def _batch(values: Tensor, index: Tensor) -> Tensor:
    """Return the samples of one step `[clients, batch, ...]`."""
    if index.ndim == 1:  # on a GPU its derivative is one addition; that of the other form sorts
        return values.index_select(1, index)
    client = torch.arange(len(index), device=index.device).unsqueeze(1)
    return values[client, index]


def shuffled_batches(
    spec: LocalSpec,
    samples: int,
    generators: Sequence[torch.Generator],
    device: torch.device,
) -> tuple[Tensor, ...]:
    """Return the batches of clients that each shuffle by their own generator."""
    each = [spec.batches(samples, generator) for generator in generators]
    steps = (
        [index for index in indices if index is not None] for indices in zip(*each, strict=True)
    )
    return tuple(torch.stack(whole).to(device) for whole in steps if whole)


def ordered_batches(spec: LocalSpec, samples: int, device: torch.device) -> tuple[Tensor, ...]:
    """Return the batches of clients that all take their samples in order."""
    return tuple(index.to(device) for index in spec.batches(samples, None) if index is not None)
