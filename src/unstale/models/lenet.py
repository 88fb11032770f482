"""The paper's small LeNet: 21,840 weights on MNIST."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unstale.models.registry import check_shape


class LeNet(nn.Module):
    """Two 5×5 convolutions with max pooling, then two linear layers.

    For inputs of 28×28: conv 1→10, pool, ReLU, conv 10→20, pool, ReLU, linear 320→50, ReLU,
    linear 50→10.
    """

    def __init__(self, input_shape: tuple[int, int, int], num_classes: int) -> None:
        super().__init__()
        channels, height, width = input_shape
        self.conv1 = nn.Conv2d(channels, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.fc1 = nn.Linear(20 * _after(height) * _after(width), 50)
        self.fc2 = nn.Linear(50, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [batch, classes]."""
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        logits: Tensor = self.fc2(x)
        return logits


def _after(size: int) -> int:
    """Return the size of a side after two 5×5 convolutions, without padding, and two poolings."""
    return ((size - 4) // 2 - 4) // 2


def lenet(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """Build a `LeNet` for images of 16×16 or more."""
    fits = len(input_shape) == 3 and min(input_shape[1:]) >= 16
    check_shape("lenet", fits, "[channels, height, width] of 16×16 or more", input_shape)
    channels, height, width = input_shape
    return LeNet((channels, height, width), num_classes)
