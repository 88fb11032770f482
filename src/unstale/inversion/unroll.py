"""Local training as a differentiable function of the surrogates: the inner loop of a fit.

There are two forms with equal results. Vectorised training pays on a GPU always, and on a
CPU for several trainings of few numbers (digits: twice as fast at ten). One training
after the other with plain autograd is faster there for images (LeNet: 1.2 times).
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from unstale.params import Params
from unstale.training.local import LocalSpec, local_update
from unstale.training.model_checks import trainable_names
from unstale.training.vectorised import StackedClients, StackedTraining, ordered_batches

# Stacked trainings -> what each changes [trainings, entries], trained parameters in order
Unroll = Callable[[StackedClients], Tensor]

# Measured on a CPU: plain autograd is the faster below this many trainings, and from this
# many numbers in one training's inputs on (LeNet's 16 images; cnn1d's 16 windows are below).
_WORTH_BATCHING = 3
_WORTH_A_LOOP = 12_500


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
    """Return the form that calls `local_update` for each training.

    That takes buffers from the model and batches from the recipe itself.
    """
    names = trainable_names(model)

    def unroll(trainings: StackedClients) -> Tensor:
        rows = []
        for i in range(len(trainings.x)):
            start = {n: w[i] for n, w in trainings.weights.items()}
            delta = local_update(model, start, trainings.x[i], trainings.y[i], local)
            rows.append(torch.cat([delta[n].reshape(-1) for n in names]))
        return torch.stack(rows)

    return unroll


def batched(model: nn.Module, local: LocalSpec) -> Unroll:
    """Return the form that trains all at once (`unstale.training.vectorised`)."""
    names = trainable_names(model)
    train = StackedTraining(model, local)

    def unroll(trainings: StackedClients) -> Tensor:
        trained, weights = train(trainings), trainings.weights
        return torch.cat([(trained[n] - weights[n]).flatten(1) for n in names], dim=1)

    return unroll


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
