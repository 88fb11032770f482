"""Losses by name, each over class indices or soft labels."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from unstale.errors import ConfigError, UnknownNameError

# (outputs [examples, classes], targets [examples] or [examples, classes]) -> scalar mean
Loss = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy; `targets` are indices or probabilities."""
    return F.cross_entropy(outputs, targets)


def mean_squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean squared difference to the one-hot or soft labels."""
    return F.mse_loss(outputs, as_soft(targets, outputs))


def as_soft(targets: Tensor, outputs: Tensor) -> Tensor:
    """Return `targets` as `[examples, classes]`: one-hot where they are indices."""
    if targets.is_floating_point():
        return targets
    # Compared with the row of classes, not scattered: that also works under vmap.
    classes = torch.arange(outputs.shape[-1], device=targets.device)
    return (targets.unsqueeze(-1) == classes).to(outputs.dtype)


LOSSES: dict[str, Loss] = {"cross_entropy": cross_entropy, "mse": mean_squared_error}


def resolve_loss(loss: str | Loss) -> Loss:
    """Return the function for a loss given by name or as a function."""
    if callable(loss):
        return loss
    if not isinstance(loss, str):
        raise ConfigError(f"A loss should be a name or a function. Found {loss!r}.")
    if loss not in LOSSES:
        raise UnknownNameError("A loss", loss, LOSSES)
    return LOSSES[loss]
