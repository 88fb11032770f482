"""ResNet-18 with a normalisation that does not depend on the batch, unlike BatchNorm.

Layers have the names of torchvision's ResNet-18 (``conv1``, ``layer1.0.conv1``,
``layer2.0.downsample.0``, ``fc``), but normalisations are ``norm1`` instead of ``bn1``; `own_name`
translates, so weights that were trained there can be loaded.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial

from torch import Tensor, nn
from torch.nn import functional as F

from unstale.errors import ConfigError
from unstale.models.fixed import FrozenBatchNorm2d, standardise
from unstale.models.registry import check_counts, check_shape

STEMS = ("cifar", "tinyimagenet", "imagenet")
NORMS = ("group", "frozen")

# The normalisation of so many channels.
Norm = Callable[[int], nn.Module]


class _Block(nn.Module):
    """A residual block: two 3×3 convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = norm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = norm(outputs)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, norm(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Return ReLU(residual + shortcut)."""
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return F.relu(y + self.downsample(x))


class ResNet18(nn.Module):
    """Four stages of two residual blocks, then global average pooling and a linear layer."""

    def __init__(
        self,
        channels: int,
        num_classes: int,
        stem: str,
        norm: Norm,
        widths: tuple[int, ...],
        scaling: nn.Module,
    ) -> None:
        super().__init__()
        self.stem = stem
        self.scaling = scaling
        first = widths[0]
        if stem == "cifar":
            self.conv1 = nn.Conv2d(channels, first, 3, padding=1, bias=False)
        else:
            stride = 2 if stem == "imagenet" else 1
            self.conv1 = nn.Conv2d(channels, first, 7, stride, padding=3, bias=False)
        self.norm1 = norm(first)
        inputs = (first, *widths[:3])
        stages = [
            nn.Sequential(_Block(i, o, stride, norm), _Block(o, o, 1, norm))
            for i, o, stride in zip(inputs, widths, (1, 2, 2, 2), strict=True)
        ]
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.fc = nn.Linear(widths[3], num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [batch, classes]."""
        x = F.relu(self.norm1(self.conv1(self.scaling(x))))
        if self.stem != "cifar":
            x = F.max_pool2d(x, 3, stride=2, padding=1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(x.mean((2, 3)))
        return logits

    @staticmethod
    def own_name(published: str) -> str:
        """Return the name here of a tensor of torchvision's ResNet-18.

        Example:
            >>> ResNet18.own_name("layer1.0.bn2.weight"), ResNet18.own_name("fc.bias")
            ('layer1.0.norm2.weight', 'fc.bias')
        """
        return re.sub(r"(^|\.)bn(\d)\.", r"\1norm\2.", published)


def resnet18(
    input_shape: tuple[int, ...],
    num_classes: int,
    *,
    stem: str = "cifar",
    norm: str = "group",
    groups: int = 32,
    widths: Sequence[int] = (64, 128, 256, 512),
    input_mean: float | Sequence[float] = 0.0,
    input_std: float | Sequence[float] = 1.0,
) -> nn.Module:
    """Build a `ResNet18`.

    Args:
        input_shape: [channels, height, width] of 8×8 or more.
        num_classes: Number of logits.
        stem: The first layers: "cifar" (3×3, stride 1, no pooling; for images up to 64×64),
            "tinyimagenet" (7×7, stride 1, then pooling; 16×16 or more) or "imagenet" (7×7,
            stride 2, then pooling; 32×32 or more).
        norm: The normalisation: "group" (GroupNorm, to train from the beginning) or "frozen"
            (BatchNorm with fixed statistics, for weights that were trained with BatchNorm; the
            statistics come with the weights).
        groups: Groups of each GroupNorm; must divide every width.
        widths: Channels of the four stages.
        input_mean: Subtracted from inputs: one number, or one per channel.
        input_std: Inputs are divided by it: one number, or one per channel.
    """
    if stem not in STEMS:
        raise ConfigError(f"stem of model 'resnet18' should be one of {STEMS}. Found {stem!r}.")
    if norm not in NORMS:
        raise ConfigError(f"norm of model 'resnet18' should be one of {NORMS}. Found {norm!r}.")
    side = {"cifar": 8, "tinyimagenet": 16, "imagenet": 32}[stem]
    fits = len(input_shape) == 3 and min(input_shape[1:]) >= side
    should = f"[channels, height, width] of {side}×{side} or more with the {stem} stem"
    check_shape("resnet18", fits, should, input_shape)
    widths = check_counts("widths of model 'resnet18'", widths, 4)
    (groups,) = check_counts("groups of model 'resnet18'", [groups], 1)
    if norm == "group" and any(width % groups for width in widths):
        raise ConfigError(
            f"groups of model 'resnet18' should divide every width of {widths}. Found {groups}."
        )
    channels = input_shape[0]
    scaling = standardise("resnet18", channels, input_mean, input_std)
    layer: Norm = FrozenBatchNorm2d if norm == "frozen" else partial(nn.GroupNorm, groups)
    return ResNet18(channels, num_classes, stem, layer, widths, scaling)
