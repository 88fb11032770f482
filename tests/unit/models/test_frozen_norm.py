"""BatchNorm with fixed statistics, against torch's BatchNorm in evaluation mode."""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import unstale as us
from unstale import models
from unstale.errors import ConfigError
from unstale.inversion import InputSpec, Inversion, convert
from unstale.models.fixed import FrozenBatchNorm2d
from unstale.params import cosine_distance

WIDTHS = [4, 4, 8, 8]


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_layer_is_batch_norm_in_evaluation_mode() -> None:
    theirs, ours = nn.BatchNorm2d(3).double().eval(), FrozenBatchNorm2d(3).double()
    for i, name in enumerate(("weight", "bias", "running_mean", "running_var")):
        value = 0.5 + draw(3, seed=i)
        getattr(theirs, name).data.copy_(value)
        getattr(ours, name).data.copy_(value)
    x, weights = draw(4, 3, 5, 5), draw(4, 3, 5, 5, seed=9)
    found = []
    for layer in (theirs, ours):
        y = layer(x)
        (y * weights).sum().backward()
        found.append((y, layer.weight.grad, layer.bias.grad))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("stem", ["cifar", "tinyimagenet", "imagenet"])
def test_the_network_equals_one_with_batch_norm_in_evaluation_mode(
    stem: str, batch_norm_net, tmp_path
) -> None:
    theirs = batch_norm_net(stem)
    torch.save(theirs.state_dict(), tmp_path / "net.pth")
    ours = models.build("resnet18", (3, 32, 32), 7, stem=stem, norm="frozen", widths=WIDTHS)
    ours = ours.double()
    loaded = models.load_weights(ours, tmp_path / "net.pth")
    assert loaded.initial == ()
    x, y = draw(5, 3, 32, 32), torch.tensor([0, 1, 2, 3, 4])
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-10, atol=1e-10)
    # In training mode too, and with the same gradients by name.
    ours.train()
    slopes = []
    for model in (theirs, ours):
        loss = nn.functional.cross_entropy(model(x), y)
        grads = torch.autograd.grad(loss, list(model.parameters()))
        slopes.append({n: g for (n, _), g in zip(model.named_parameters(), grads, strict=True)})
    for name, slope in slopes[0].items():
        torch.testing.assert_close(slopes[1][ours.own_name(name)], slope, rtol=1e-9, atol=1e-10)


def test_inputs_are_standardised_before_the_zero_padding(batch_norm_net, tmp_path) -> None:
    theirs = batch_norm_net()
    save_file(theirs.state_dict(), tmp_path / "net.safetensors")
    mean, std = [0.4, 0.5, 0.6], [0.2, 0.25, 0.5]
    ours = models.build(
        "resnet18", (3, 8, 8), 7, norm="frozen", widths=WIDTHS, input_mean=mean, input_std=std
    ).double()
    models.load_weights(ours, tmp_path / "net.safetensors")
    x = draw(3, 3, 8, 8)
    scaled = torch.stack([(x[:, c] - mean[c]) / std[c] for c in range(3)], dim=1)
    # The constants are of float32.
    torch.testing.assert_close(ours(x), theirs(scaled), rtol=1e-5, atol=1e-5)
    one = {"norm": "frozen", "widths": WIDTHS, "input_mean": 0.5, "input_std": 0.5}
    assert not torch.allclose(models.build("resnet18", (3, 8, 8), 7, **one).double()(x), ours(x))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"norm": "batch"}, "norm of model 'resnet18' should be one of .*'group', 'frozen'"),
        ({"input_mean": [0.5, 0.5]}, "input_mean .* a number, or 3 of them"),
        ({"input_std": 0}, "input_std .* above 0"),
        ({"input_std": float("nan")}, "input_std .* a number"),
        ({"input_mean": "0.5"}, "input_mean"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        models.build("resnet18", (3, 8, 8), 5, **{"widths": WIDTHS, "groups": 2, **settings})


def test_groups_do_not_matter_to_fixed_statistics() -> None:
    models.build("resnet18", (3, 8, 8), 5, norm="frozen", widths=[3, 5, 7, 9])
    with pytest.raises(ConfigError, match="divide every width"):
        models.build("resnet18", (3, 8, 8), 5, widths=[3, 5, 7, 9])


def test_updates_of_a_network_with_frozen_parts_are_converted(batch_norm_net, tmp_path) -> None:
    torch.save(batch_norm_net(classes=20).float().state_dict(), tmp_path / "net.pt")
    model = models.build("resnet18", (3, 8, 8), 3, norm="frozen", widths=WIDTHS)
    models.load_weights(model, tmp_path / "net.pt")
    models.freeze(model, ["conv1", "norm1", "layer1", "layer2"])
    statistics = {n: b.clone() for n, b in model.named_buffers()}
    local = us.LocalSpec(lr=0.05, steps=3)
    base = {n: p.detach().clone() for n, p in model.named_parameters()}
    x, late = draw(6, 3, 8, 8).float(), torch.tensor([2] * 6)
    others, fresh = draw(12, 3, 8, 8, seed=1).float(), torch.arange(12) % 2
    current = base
    for _ in range(6):
        moved = us.local_update(model, current, others, fresh, local)
        current = {n: current[n] + moved[n] for n in current}
    stale = us.local_update(model, base, x, late, local)
    true = us.local_update(model, current, x, late, local)
    found = convert(
        model, base=base, current=current, delta=stale, local=local, num_examples=6,
        inputs=InputSpec((3, 8, 8), 3, 0.0, 1.0),
        settings=Inversion(start="classes", iterations=25),
    )  # fmt: skip
    assert found.ok, found.reason
    frozen = [n for n, p in model.named_parameters() if not p.requires_grad]
    assert "layer2.1.norm2.bias" in frozen
    assert not any(found.delta[n].any() for n in frozen)
    assert cosine_distance(found.delta, true) < cosine_distance(stale, true) / 2
    assert all(torch.equal(b, statistics[n]) for n, b in model.named_buffers())
