"""Many local trainings at once, differentiable: the inner loop of an inversion.

Two forms of the same thing. `vmap` with weights of their own pays on a GPU always,
and on a CPU for several trainings of few numbers (digits: twice as fast at ten); one
by one with plain autograd is faster there for images (LeNet: 1.2 times). Both run the
steps of `unstale.training.local`.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from unstale.params import Params
from unstale.training.local import LocalSpec, local_update, train
from unstale.training.losses import resolve_loss
from unstale.training.model_checks import trainable_names

# (weights [trainings, ...] by name, x [trainings, samples, ...], labels [trainings, samples,
# classes]) -> what each training changed [trainings, entries]
Unroll = Callable[[Params, Tensor, Tensor], Tensor]

# Measured on a CPU: plain autograd is the faster below this many trainings, and from this
# many numbers in one training's inputs on (LeNet's 16 images; cnn1d's 16 windows are below).
_WORTH_BATCHING = 3
_WORTH_A_LOOP = 12_500


def unroller(
    model: nn.Module, local: LocalSpec, shape: Sequence[int], device: torch.device
) -> Unroll:
    """Return the faster form on this device for inputs `[trainings, samples, ...]`."""
    if pays_to_batch(shape, device):
        return batched(model, local, shape[1], device)
    return one_by_one(model, local)


def pays_to_batch(shape: Sequence[int], device: torch.device) -> bool:
    """Tell whether `vmap` is the faster form for inputs `[trainings, samples, ...]`.

    Example:
        >>> pays_to_batch((10, 128, 64), torch.device("cpu"))
        True
        >>> pays_to_batch((10, 128, 1, 28, 28), torch.device("cpu"))
        False
    """
    several, small = shape[0] >= _WORTH_BATCHING, math.prod(shape[1:]) < _WORTH_A_LOOP
    return device.type != "cpu" or (several and small)


def one_by_one(model: nn.Module, local: LocalSpec) -> Unroll:
    """Return the form that calls `local_update` for each training."""
    names = trainable_names(model)

    def unroll(weights: Params, x: Tensor, labels: Tensor) -> Tensor:
        rows = []
        for i in range(len(x)):
            start = {n: w[i] for n, w in weights.items()}
            delta = local_update(model, start, x[i], labels[i], local)
            rows.append(torch.cat([delta[n].reshape(-1) for n in names]))
        return torch.stack(rows)

    return unroll


def batched(model: nn.Module, local: LocalSpec, samples: int, device: torch.device) -> Unroll:
    """Return the form that trains all at once by `vmap`.

    It cannot watch for side effects of the model (that reads the state of the
    random generators, which a CUDA graph forbids): run `local_update` once before.
    """
    names = trainable_names(model)
    buffers = {n: b.clone() for n, b in model.named_buffers()}
    loss_fn = resolve_loss(local.loss)
    # On the device beforehand: a CUDA graph cannot fetch them from the host.
    batches = [i if i is None else i.to(device) for i in local.batches(samples, None)]

    def loss_of(trained: Params, fixed: Params, x: Tensor, labels: Tensor) -> Tensor:
        outputs = functional_call(model, {**trained, **fixed, **buffers}, (x,))
        return loss_fn(outputs, labels)

    gradients = vmap(grad(loss_of))

    def gradient(current: Params, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        trained = {n: current[n] for n in names}
        fixed = {n: w for n, w in current.items() if n not in trained}
        return dict(gradients(trained, fixed, x, labels))

    def unroll(weights: Params, x: Tensor, labels: Tensor) -> Tensor:
        rows = (i if i is None else i.expand(len(x), -1) for i in batches)
        trained = train(weights, x, labels, local, gradient, names, rows)
        return torch.cat([(trained[n] - weights[n]).flatten(1) for n in names], dim=1)

    return unroll
