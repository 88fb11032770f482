"""Local training as a differentiable function of the surrogates: the inner loop of a fit.

There are two forms with equal results. Vectorised training pays on a GPU always, and on a
CPU for several trainings of few numbers (digits: twice as fast at ten). One training
after the other with plain autograd is faster there for images (LeNet: 1.2 times).
"""

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from unstale.params import Params
from unstale.training.local import GradientFn, LocalSpec, local_update, loss_gradient
from unstale.training.losses import resolve_loss
from unstale.training.token_models import surrogate_names
from unstale.training.vectorised import StackedClients, StackedTraining, ordered_batches

# Measured on a CPU: plain autograd is the faster below this many trainings, and from this
# many numbers in one training's inputs on (LeNet's 16 images; cnn1d's 16 windows are below).
_WORTH_BATCHING = 3
_WORTH_A_LOOP = 12_500


class Unroll(Protocol):
    """One form of the training of surrogates, by one recipe."""

    @property
    def local(self) -> LocalSpec:
        """The recipe."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that are trained, in the order of their entries in a change."""
        ...

    def __call__(self, trainings: StackedClients) -> Tensor:
        """Return what each training changes `[trainings, entries]`, differentiably."""
        ...

    def step_gradient(self, buffers: Params) -> GradientFn:
        """Return the gradient of one step's loss for stacked weights and batches.

        It can be differentiated with respect to the batch, not the weights.
        """
        ...


def unroller(
    model: nn.Module, local: LocalSpec, shape: Sequence[int], device: torch.device
) -> Unroll:
    """Return the faster form on this device for inputs `[trainings, samples, ...]`."""
    return batched(model, local) if pays_to_batch(shape, device) else one_by_one(model, local)


def pays_to_batch(shape: Sequence[int], device: torch.device) -> bool:
    """Tell whether vectorised training is faster for inputs `[trainings, samples, ...]`.

    Example:
        >>> pays_to_batch((10, 128, 64), torch.device("cpu"))
        True
        >>> pays_to_batch((10, 128, 1, 28, 28), torch.device("cpu"))
        False
    """
    several, small = shape[0] >= _WORTH_BATCHING, math.prod(shape[1:]) < _WORTH_A_LOOP
    return device.type != "cpu" or (several and small)


def one_by_one(model: nn.Module, local: LocalSpec) -> Unroll:
    """Return the form that trains one surrogate after the other with plain autograd."""
    return _OneByOne(model, local)


def batched(model: nn.Module, local: LocalSpec) -> Unroll:
    """Return the form that trains all at once (`unstale.training.vectorised`)."""
    return _Batched(model, local)


class _OneByOne:
    """Calls `local_update` for each training.

    That takes buffers from the model and batches from the recipe itself.
    """

    def __init__(self, model: nn.Module, local: LocalSpec) -> None:
        self.local = local
        self.names = surrogate_names(model)
        self._model = model

    def __call__(self, trainings: StackedClients) -> Tensor:
        rows = []
        for i in range(len(trainings.x)):
            start = {n: w[i] for n, w in trainings.weights.items()}
            delta = local_update(self._model, start, trainings.x[i], trainings.y[i], self.local)
            rows.append(torch.cat([delta[n].reshape(-1) for n in self.names]))
        return torch.stack(rows)

    def step_gradient(self, buffers: Params) -> GradientFn:
        loss_fn = resolve_loss(self.local.loss)

        def gradient(current: Params, x: Tensor, y: Tensor) -> dict[str, Tensor]:
            found = []
            for i in range(len(x)):
                own = {n: p[i].detach().requires_grad_(n in self.names) for n, p in current.items()}
                found.append(
                    loss_gradient(
                        self._model, loss_fn, self.names, own, buffers, x[i], y[i],
                        create_graph=x.requires_grad or y.requires_grad,
                    )
                )  # fmt: skip
            return {n: torch.stack([each[n] for each in found]) for n in self.names}

        return gradient


class _Batched:
    """Trains all surrogates at once by `vmap`."""

    def __init__(self, model: nn.Module, local: LocalSpec) -> None:
        self.local = local
        self.names = surrogate_names(model)
        self._training = StackedTraining(model, local, names=self.names)

    def __call__(self, trainings: StackedClients) -> Tensor:
        return flat_change(self._training(trainings), trainings.weights, self.names)

    def step_gradient(self, buffers: Params) -> GradientFn:
        gradient = self._training.step_gradient(buffers)

        def at_fixed_weights(current: Params, x: Tensor, y: Tensor) -> dict[str, Tensor]:
            return gradient({n: p.detach() for n, p in current.items()}, x, y)

        return at_fixed_weights


def flat_change(trained: Params, start: Params, names: Sequence[str]) -> Tensor:
    """Return `trained - start` of stacked trainings as `[trainings, entries]`."""
    return torch.cat([(trained[n] - start[n]).flatten(1) for n in names], dim=1)


def stacked(
    model: nn.Module, local: LocalSpec, weights: Params, x: Tensor, labels: Tensor
) -> StackedClients:
    """Return trainings of surrogates `[trainings, samples, ...]` as either form takes them."""
    return StackedClients(
        weights, buffers_of(model), x, labels, ordered_batches(local, x.shape[1], x.device)
    )


def buffers_of(model: nn.Module) -> dict[str, Tensor]:
    """Return copies of a model's buffers, so that nothing can change them during a fit."""
    return {n: b.detach().clone() for n, b in model.named_buffers()}
