"""The network of `experiments/batchnorm_resnet18`, as it is and after `fix_model`."""

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import nn

from unstale.experiment import load_experiment
from unstale.experiment.model import build_model
from unstale.training.client import client_update, statistics_of
from unstale.training.local import LocalSpec

FOLDER = Path(__file__).parents[2] / "experiments" / "batchnorm_resnet18"


@pytest.fixture(scope="module", params=["batchnorm.toml", "config.toml"])
def config(request):
    config = load_experiment(FOLDER / request.param)
    assert config.weights == "resnet18_tinyimagenet.pth"
    return dataclasses.replace(config, weights=None)  # the file is not in the repository


def test_names_are_torchvision_s(config):
    as_given = dataclasses.replace(config, fix=False, freeze=())
    model, _ = build_model(as_given, (3, 64, 64), 1000, 0)
    # Of torchvision's ResNet-18: tensors with counters, and weights.
    assert len(model.state_dict()) == 122
    assert sum(p.numel() for p in model.parameters()) == 11_689_512
    assert {"bn1.running_mean", "layer4.1.bn2.weight", "layer2.0.downsample.1.bias"} <= set(
        model.state_dict()
    )


def test_it_trains_as_the_experiment_says(config):
    model, _ = build_model(config, (3, 64, 64), 5, 0)
    kinds = {type(layer) for layer in model.modules()}
    assert (nn.GroupNorm in kinds) == config.fix
    assert (nn.BatchNorm2d in kinds) == (not config.fix)
    start = {**dict(model.named_parameters()), **statistics_of(model)}
    start = {name: value.detach().clone() for name, value in start.items()}
    x = torch.rand(4, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    delta = client_update(model, start, x, torch.arange(4) % 5, LocalSpec(lr=0.02, epochs=1))
    assert all(torch.isfinite(value).all() for value in delta.values())
    weights = {n.partition(".")[0] for n, p in model.named_parameters() if delta[n].abs().sum() > 0}
    assert weights == {"layer3", "layer4", "fc"}
