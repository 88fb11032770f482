"""ResNet-18 as torchvision has it, of torch's own layers: torchvision itself is not needed."""

import pytest
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + shortcut)


class Reference(nn.Module):
    """With BatchNorm; `kernel`, `stride` and `pool` are those of the stem."""

    def __init__(self, widths, classes: int, kernel: int, stride: int, pool: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], kernel, stride, padding=kernel // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, padding=1) if pool else nn.Identity()
        inputs = widths[0]
        for number, (outputs, first) in enumerate(zip(widths, (1, 2, 2, 2), strict=True), 1):
            stage = nn.Sequential(Block(inputs, outputs, first), Block(outputs, outputs, 1))
            setattr(self, f"layer{number}", stage)
            inputs = outputs
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


STEMS = {"cifar": (3, 1, False), "tinyimagenet": (7, 1, True), "imagenet": (7, 2, True)}


@pytest.fixture
def batch_norm_net():
    """Return such a network as after training: no statistic or weight at its initial value."""

    def make(stem="cifar", classes=7, widths=(4, 4, 8, 8)) -> nn.Module:
        rng = torch.Generator().manual_seed(3)
        model = Reference(widths, classes, *STEMS[stem]).double().eval()
        with torch.no_grad():
            for name, value in model.state_dict().items():
                if name.endswith(
                    ("running_var", "bn1.weight", "bn2.weight", "downsample.1.weight")
                ):
                    value.copy_(0.5 + torch.rand(value.shape, generator=rng))
                elif value.is_floating_point():
                    value.copy_(0.3 * torch.randn(value.shape, generator=rng))
                else:
                    value.fill_(1000)
        return model

    return make
