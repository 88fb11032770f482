"""Layers with fixed constants: batch normalisation that is not updated, and input scaling.

BatchNorm in training mode normalises by the statistics of the batch and updates running ones, so
an update would depend on more than weights and data. Here all statistics are constants. A
pretrained network then computes exactly what it computes in evaluation mode, and training it is
a pure function of the weights and the batch.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unstale.errors import ConfigError


class FrozenBatchNorm2d(nn.Module):
    r"""BatchNorm with fixed statistics and a trainable affine part.

    $y = \gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \beta$ per channel: that is
    ``nn.BatchNorm2d`` in evaluation mode. γ and β are the parameters ``weight`` and ``bias``; μ and
    σ² are the buffers ``running_mean`` and ``running_var``, under BatchNorm's own names, so
    its weights can be loaded. They begin at 0 and 1, which does not normalise anything.

    Args:
        channels: Number of channels.
        eps: ε, by default that of ``nn.BatchNorm2d``.

    Example:
        >>> layer = FrozenBatchNorm2d(2)
        >>> _ = layer.running_mean.fill_(3.0), layer.running_var.fill_(4.0)
        >>> layer(torch.full((1, 2, 1, 1), 7.0)).flatten()
        tensor([2.0000, 2.0000], grad_fn=<ViewBackward0>)
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised channels of [batch, channels, height, width]."""
        scale = self.weight * torch.rsqrt(self.running_var + self.eps)
        shift = self.bias - self.running_mean * scale
        return x * scale[:, None, None] + shift[:, None, None]

    def extra_repr(self) -> str:
        """Return the settings for ``repr``."""
        return f"{len(self.weight)}, eps={self.eps}"


class Standardise(nn.Module):
    """Scaling of inputs by constants: (x - mean) / std, per channel.

    The constants are settings of the model, so they are no part of its ``state_dict``.

    Args:
        mean: One per channel.
        std: One per channel.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(std)[:, None, None], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scaled images of [batch, channels, height, width]."""
        return (x - self.mean) / self.std


def standardise(
    name: str, channels: int, mean: float | Sequence[float], std: float | Sequence[float]
) -> nn.Module:
    """Return the scaling of a model's inputs; the identity for mean 0 and deviation 1.

    Args:
        name: The model, for messages.
        channels: Number of channels of an input.
        mean: The mean to subtract: one number, or one per channel.
        std: The deviation to divide by, above 0: one number, or one per channel.

    Raises:
        ConfigError: If they are anything else.
    """
    means = _per_channel(f"input_mean of model '{name}'", mean, channels)
    stds = _per_channel(f"input_std of model '{name}'", std, channels)
    if min(stds) <= 0:
        raise ConfigError(f"input_std of model '{name}' should be above 0. Found {std!r}.")
    if set(means) == {0.0} and set(stds) == {1.0}:
        return nn.Identity()
    return Standardise(means, stds)


def _per_channel(what: str, value: float | Sequence[float], channels: int) -> list[float]:
    values: list[Any] = list(value) if isinstance(value, list | tuple) else [value] * channels
    numbers = all(type(v) in (int, float) and math.isfinite(v) for v in values)
    if not numbers or len(values) != channels:
        raise ConfigError(f"{what} should be a number, or {channels} of them. Found {value!r}.")
    return [float(v) for v in values]
