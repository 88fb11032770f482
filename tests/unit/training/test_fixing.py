"""fix_model: BatchNorm becomes GroupNorm, dropout goes, all of it listed."""

import logging

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import unstale as us
from unstale.errors import ConfigError, ModelError


class BasicBlock(nn.Module):
    """As torchvision's, with layers that work in place."""

    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outputs))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class SmallResNet(nn.Module):
    """Two stages in the manner of ResNet-18."""

    def __init__(self, classes=3):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = nn.Sequential(BasicBlock(8, 8))
        self.layer2 = nn.Sequential(BasicBlock(8, 16, 2))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        x = self.layer2(self.layer1(self.relu(self.bn1(self.conv1(x)))))
        return self.fc(self.drop(torch.flatten(self.avgpool(x), 1)))


@pytest.fixture
def resnet():
    torch.manual_seed(0)
    return SmallResNet()


def test_a_resnet_is_fixed_and_every_change_is_listed(resnet, caplog):
    with torch.no_grad():
        resnet.bn1.weight.fill_(0.5)
    before = {name: tuple(p.shape) for name, p in resnet.named_parameters()}
    with caplog.at_level(logging.WARNING, "unstale"):
        fixed = us.fix_model(resnet)
    us.check_model(fixed)
    assert {name: tuple(p.shape) for name, p in fixed.named_parameters()} == before
    assert torch.equal(fixed.bn1.weight, resnet.bn1.weight)
    assert fixed.bn1.weight is not resnet.bn1.weight
    assert isinstance(resnet.bn1, nn.BatchNorm2d), "the caller's model stays"
    fixes = us.model_fixes(resnet)
    assert [fix.path for fix in fixes] == [
        "bn1", "layer1.0.bn1", "layer1.0.bn2", "layer2.0.bn1", "layer2.0.bn2",
        "layer2.0.downsample.1", "drop",
    ]  # fmt: skip
    assert all(str(fix) in caplog.text for fix in fixes)
    assert "BatchNorm2d of 16 channels → GroupNorm of 8 groups" in caplog.text
    assert us.model_fixes(fixed) == ()


def test_convert_trains_a_fixed_resnet(resnet):
    """Layers that work in place are no hindrance."""
    rng = torch.Generator().manual_seed(1)
    x, y = torch.rand(6, 1, 6, 6, generator=rng), torch.arange(6) % 3
    fixed = us.fix_model(resnet, example=x)
    local = us.LocalSpec(lr=0.05, epochs=2)
    base = us.params_of(fixed)
    stale = us.local_update(fixed, base, x, y, local)
    current = {name: p + stale[name] for name, p in base.items()}
    settings = us.Inversion(iterations=4, trial_iterations=1, max_loss=100.0)
    made = us.convert(
        fixed, base=base, delta=stale, current=current, local=local, num_examples=6,
        settings=settings,
        inputs=us.InputSpec(shape=(1, 6, 6), classes=3, low=0.0, high=1.0),
    )  # fmt: skip
    assert made.ok, made.reason
    assert all(torch.isfinite(p).all() for p in made.delta.values())


@pytest.mark.parametrize(
    ("layer", "shape", "groups"),
    [
        (nn.BatchNorm1d(32), (5, 32), 4),
        (nn.BatchNorm1d(6), (5, 6), 1),
        (nn.BatchNorm2d(64), (2, 64, 3, 3), 32),
        (nn.BatchNorm2d(9), (2, 9, 3, 3), 3),
        (nn.BatchNorm2d(7), (2, 7, 3, 3), 1),
        (nn.BatchNorm3d(8), (2, 8, 2, 2, 2), 4),
        (nn.SyncBatchNorm(8), (2, 8, 3, 3), 4),
        (nn.BatchNorm2d(8, affine=False), (2, 8, 3, 3), 4),
    ],
)
def test_groups(layer, shape, groups):
    fixed = us.fix_model(nn.Sequential(nn.Identity(), layer, nn.Linear(shape[-1], 2)))
    assert isinstance(fixed[1], nn.GroupNorm)
    assert fixed[1].num_groups == groups
    assert fixed[1](torch.randn(shape)).std() > 0.5, "nothing is lost"


def test_all_that_drops_is_taken_out():
    layers = [
        nn.Dropout(0.1), nn.Dropout2d(0.2), nn.Dropout3d(0.3), nn.AlphaDropout(0.4),
        nn.FeatureAlphaDropout(0.5), nn.LSTM(4, 4, num_layers=2, dropout=0.6),
        nn.TransformerEncoderLayer(4, 2, 8, dropout=0.7),
    ]  # fmt: skip
    model = nn.ModuleDict({"all": nn.ModuleList(layers)})
    fixed = us.fix_model(model)
    us.check_model(fixed)
    assert len(us.model_fixes(model)) == 6 + 4
    assert fixed["all"][5].dropout == 0
    assert fixed["all"][6].self_attn.dropout == 0


class StochasticDepth(nn.Module):
    """As torchvision's."""

    def __init__(self, p):
        super().__init__()
        self.p = p


class BatchNormAct2d(nn.BatchNorm2d):
    """As timm's: BatchNorm with an activation of its own."""

    def __init__(self, channels):
        super().__init__(channels)
        self.drop, self.act = nn.Identity(), nn.ReLU()


def test_layers_of_other_libraries():
    fixed = us.fix_model(nn.Sequential(BatchNormAct2d(8), StochasticDepth(0.2)))
    assert [type(layer) for layer in fixed[0]] == [nn.GroupNorm, nn.Identity, nn.ReLU]
    assert fixed[1].p == 0


def test_what_is_left_alone():
    shared = nn.BatchNorm1d(16)
    model = nn.Sequential(
        nn.Embedding(5, 16, max_norm=1.0), shared, nn.BatchNorm1d(16).eval(), shared,
        nn.InstanceNorm1d(16, track_running_stats=True), nn.Dropout(0.5).eval(),
    )  # fmt: skip
    model[0].weight.requires_grad_(False)
    fixed = us.fix_model(model)
    us.check_model(fixed)
    assert fixed[1] is fixed[3], "a layer that is used twice stays one"
    assert isinstance(fixed[2], nn.BatchNorm1d), "in eval mode it is a function of its weights"
    assert fixed[5].p == 0.5
    assert not fixed[0].weight.requires_grad, "frozen parts stay frozen"
    assert fixed[0].max_norm is None
    assert fixed[4].running_mean is None


class OwnNorm(nn.BatchNorm1d):
    pass


class DropsFunctionally(nn.Linear):
    def forward(self, x):
        return F.dropout(super().forward(x), 0.5, self.training)


def test_what_cannot_be_fixed_is_named():
    model = nn.Sequential(OwnNorm(4), nn.BatchNorm1d(1), nn.Linear(4, 2))
    with pytest.raises(ModelError) as error:
        us.fix_model(model)
    text = str(error.value)
    assert "`0` (OwnNorm) is a BatchNorm of its own kind" in text
    assert "`1` (BatchNorm1d) has one channel" in text
    with pytest.raises(ModelError, match="Run one forward pass first"):
        us.fix_model(nn.Sequential(nn.LazyBatchNorm1d(), nn.Linear(4, 2)))
    dropping = DropsFunctionally(3, 2)
    us.fix_model(dropping)
    with pytest.raises(ModelError, match=r"draws random numbers.*`forward`"):
        us.fix_model(dropping, example=torch.ones(4, 3))
    with pytest.raises(ConfigError, match="groups"):
        us.fix_model(nn.Linear(2, 2), groups=0)
