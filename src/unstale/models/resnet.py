"""ResNet-18 with group normalisation, which has no running statistics, unlike BatchNorm.

Convolutions and the linear layer have the names of torchvision's ResNet-18 (``conv1``,
``layer1.0.conv1``, ``layer2.0.downsample.0``, ``fc``), so their weights can be loaded.
"""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional as F

from unstale.errors import ConfigError
from unstale.models.registry import check_counts, check_shape

STEMS = ("cifar", "imagenet")


class _Block(nn.Module):
    """A residual block: two 3×3 convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int, groups: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(groups, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(groups, outputs)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.GroupNorm(groups, outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return ReLU(residual + shortcut)."""
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return F.relu(y + self.downsample(x))


class ResNet18(nn.Module):
    """Four stages of two residual blocks, then global average pooling and a linear layer."""

    def __init__(
        self, channels: int, num_classes: int, stem: str, groups: int, widths: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.stem = stem
        first = widths[0]
        if stem == "imagenet":
            self.conv1 = nn.Conv2d(channels, first, 7, stride=2, padding=3, bias=False)
        else:
            self.conv1 = nn.Conv2d(channels, first, 3, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(groups, first)
        inputs = (first, *widths[:3])
        stages = [
            nn.Sequential(_Block(i, o, stride, groups), _Block(o, o, 1, groups))
            for i, o, stride in zip(inputs, widths, (1, 2, 2, 2), strict=True)
        ]
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.fc = nn.Linear(widths[3], num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [batch, classes]."""
        x = F.relu(self.norm1(self.conv1(x)))
        if self.stem == "imagenet":
            x = F.max_pool2d(x, 3, stride=2, padding=1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(x.mean((2, 3)))
        return logits


def resnet18(
    input_shape: tuple[int, ...],
    num_classes: int,
    *,
    stem: str = "cifar",
    groups: int = 32,
    widths: Sequence[int] = (64, 128, 256, 512),
) -> nn.Module:
    """Build a `ResNet18`.

    Args:
        input_shape: [channels, height, width] of 8×8 or more.
        num_classes: Number of logits.
        stem: "cifar" (3×3, stride 1, no pooling; for images up to 64×64) or
            "imagenet" (7×7, stride 2, then pooling; 32×32 or more).
        groups: Groups of each GroupNorm; must divide every width.
        widths: Channels of the four stages.
    """
    if stem not in STEMS:
        raise ConfigError(f"stem of model 'resnet18' should be one of {STEMS}. Found {stem!r}.")
    side = 32 if stem == "imagenet" else 8
    fits = len(input_shape) == 3 and min(input_shape[1:]) >= side
    should = f"[channels, height, width] of {side}×{side} or more with the {stem} stem"
    check_shape("resnet18", fits, should, input_shape)
    widths = check_counts("widths of model 'resnet18'", widths, 4)
    (groups,) = check_counts("groups of model 'resnet18'", [groups], 1)
    if any(width % groups for width in widths):
        raise ConfigError(
            f"groups of model 'resnet18' should divide every width of {widths}. Found {groups}."
        )
    return ResNet18(input_shape[0], num_classes, stem, groups, widths)
