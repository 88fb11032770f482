"""A 1-D CNN for time series, such as HAPT, and for vectors of features."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unstale.models.registry import check_counts, check_shape


class Cnn1d(nn.Module):
    """Two convolutions with kernel size 5 and max pooling, then two linear layers."""

    def __init__(
        self, inputs: int, length: int, num_classes: int, channels: tuple[int, ...], hidden: int
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(inputs, channels[0], kernel_size=5)
        self.conv2 = nn.Conv1d(channels[0], channels[1], kernel_size=5)
        after = ((length - 4) // 2 - 4) // 2
        self.fc1 = nn.Linear(channels[1] * after, hidden)
        self.fc2 = nn.Linear(hidden, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [batch, classes] for [batch, channels, length] or [batch, length]."""
        if x.ndim == 2:
            x = x.unsqueeze(1)
        x = F.relu(F.max_pool1d(self.conv1(x), 2))
        x = F.relu(F.max_pool1d(self.conv2(x), 2))
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        logits: Tensor = self.fc2(x)
        return logits


def cnn1d(
    input_shape: tuple[int, ...],
    num_classes: int,
    *,
    channels: Sequence[int] = (16, 32),
    hidden: int = 64,
) -> nn.Module:
    """Build a `Cnn1d`.

    Args:
        input_shape: [channels, length] or [length], of length 16 or more.
        num_classes: Number of logits.
        channels: Output channels of the two convolutions.
        hidden: Output size of the first linear layer.
    """
    fits = len(input_shape) in (1, 2) and input_shape[-1] >= 16
    check_shape("cnn1d", fits, "[channels, length] or [length] of 16 or more", input_shape)
    channels = check_counts("channels of model 'cnn1d'", channels, 2)
    (hidden,) = check_counts("hidden of model 'cnn1d'", [hidden], 1)
    inputs = input_shape[0] if len(input_shape) == 2 else 1
    return Cnn1d(inputs, input_shape[-1], num_classes, channels, hidden)
