"""fix_model on common nets of torchvision and timm, where these are installed."""

import pytest
import torch

import unstale as us


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["resnet18", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "densenet121",
     "shufflenet_v2_x0_5", "vgg11_bn", "convnext_tiny", "vit_b_16", "swin_t"],
)  # fmt: skip
def test_torchvision(name):
    models = pytest.importorskip("torchvision.models")
    fixed = us.fix_model(models.get_model(name), example=torch.rand(2, 3, 224, 224))
    us.check_model(fixed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["resnet18", "efficientnet_b0", "mobilenetv3_small_100", "vit_tiny_patch16_224"]
)
def test_timm(name):
    timm = pytest.importorskip("timm")
    fixed = us.fix_model(timm.create_model(name), example=torch.rand(2, 3, 224, 224))
    us.check_model(fixed)
