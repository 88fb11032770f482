import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap

from unstale import models
from unstale.errors import ConfigError, UnknownNameError
from unstale.models import registry

# Every model on every shape that it meets in the experiments, or a small one like it.
# fmt: off
CASES = [
    ("digits", (1, 8, 8), 10, {}),
    ("lenet", (1, 28, 28), 10, {}),
    ("lenet", (3, 32, 32), 10, {}),
    ("mlp", (6, 128), 12, {}),
    ("mlp", (225,), 6, {"hidden": [32, 16, 8]}),
    ("cnn1d", (6, 128), 12, {}),
    ("cnn1d", (225,), 6, {"channels": (4, 8), "hidden": 16}),
    ("resnet18", (3, 8, 8), 10, {"groups": 2, "widths": [4, 4, 8, 8]}),
    ("resnet18", (3, 32, 32), 5, {"stem": "imagenet", "groups": 2, "widths": [4, 4, 8, 8]}),
    ("resnet18", (3, 16, 16), 5, {
        "stem": "tinyimagenet", "norm": "frozen", "widths": [4, 4, 8, 8],
        "input_mean": 0.5, "input_std": [0.5, 0.25, 0.2],
    }),
]
# fmt: on
IDS = [f"{name}-{'x'.join(map(str, shape))}" for name, shape, _, _ in CASES]


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "BUILDERS", dict(registry.BUILDERS))


def inputs(shape: tuple[int, ...], batch: int = 3) -> torch.Tensor:
    return torch.rand(batch, *shape, generator=torch.Generator().manual_seed(0))


def num_weights(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())


def test_the_paper_s_models_are_registered_and_tried_here() -> None:
    assert models.names() == ("digits", "lenet", "resnet18", "mlp", "cnn1d")
    assert {name for name, *_ in CASES} == set(models.names())


@pytest.mark.parametrize(
    ("name", "shape", "classes", "expected"),
    [
        ("lenet", (1, 28, 28), 10, 21_840),
        ("digits", (1, 8, 8), 10, 64 * 64 + 64 + 64 * 10 + 10),
        # torchvision's ResNet-18 has 11,689,512 with 1,000 classes; norms have as many weights.
        ("resnet18", (3, 64, 64), 1000, 11_689_512 - 3 * 64 * (7 * 7 - 3 * 3)),
    ],
)
def test_numbers_of_weights(name, shape, classes, expected: int) -> None:
    assert num_weights(models.build(name, shape, classes)) == expected


def test_lenet_is_the_paper_s_layer_by_layer() -> None:
    lenet = models.build("lenet", (1, 28, 28), 10)
    reference = nn.Sequential(
        nn.Conv2d(1, 10, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(10, 20, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(320, 50),
        nn.ReLU(),
        nn.Linear(50, 10),
    )
    for ours, theirs in zip(lenet.parameters(), reference.parameters(), strict=True):
        theirs.data.copy_(ours.data)
    x = inputs((1, 28, 28))
    assert torch.equal(lenet(x), reference(x))


def test_the_imagenet_stem_has_the_weights_of_torchvision_s() -> None:
    assert num_weights(models.build("resnet18", (3, 64, 64), 1000, stem="imagenet")) == 11_689_512


@pytest.mark.parametrize(("name", "shape", "classes", "settings"), CASES, ids=IDS)
class TestEveryModel:
    def test_it_gives_finite_logits_that_differ(self, name, shape, classes, settings) -> None:
        logits = models.build(name, shape, classes, **settings)(inputs(shape)).detach()
        assert logits.shape == (3, classes)
        assert bool(logits.isfinite().all())
        assert float((logits[0] - logits[1]).abs().max()) > 0

    def test_it_is_a_function_of_weights_and_input(self, name, shape, classes, settings) -> None:
        model = models.build(name, shape, classes, **settings)
        before = [buffer.clone() for buffer in model.buffers()]
        assert bool(before) == (settings.get("norm") == "frozen")
        refused = (nn.Dropout, nn.modules.batchnorm._BatchNorm)
        assert not any(isinstance(module, refused) for module in model.modules())
        x = inputs(shape)
        # No sample sees another one.
        assert torch.allclose(model(x)[1:2], model(x[1:2]), atol=1e-5)
        assert all(torch.equal(a, b) for a, b in zip(before, model.buffers(), strict=True))

    def test_weights_come_from_the_seed_alone(self, name, shape, classes, settings) -> None:
        def weights(seed: int) -> torch.Tensor:
            model = models.build(name, shape, classes, seed=seed, **settings)
            return nn.utils.parameters_to_vector(model.parameters())

        torch.manual_seed(1)
        first = weights(7)
        torch.manual_seed(2)
        before = torch.get_rng_state()
        assert torch.equal(first, weights(7))
        assert not torch.equal(first, weights(8))
        assert torch.equal(before, torch.get_rng_state())

    def test_it_trains_under_vmap_over_stacked_weights(
        self, name, shape, classes, settings
    ) -> None:
        clients = [models.build(name, shape, classes, seed=s, **settings) for s in (0, 1)]
        stacked, _ = stack_module_state(clients)
        stacked = {key: value.detach() for key, value in stacked.items()}
        x, y = inputs(shape), torch.tensor([0, 1, 1])

        def loss(weights, x):
            return nn.functional.cross_entropy(functional_call(clients[0], weights, (x,)), y)

        gradients = vmap(grad(loss), in_dims=(0, None))(stacked, x)
        for i, client in enumerate(clients):
            expected = torch.autograd.grad(
                nn.functional.cross_entropy(client(x), y), list(client.parameters())
            )
            for (key, _), value in zip(client.named_parameters(), expected, strict=True):
                assert torch.allclose(gradients[key][i], value, atol=1e-4), key

    def test_a_step_of_training_can_be_differentiated_by_its_data(
        self, name, shape, classes, settings
    ) -> None:
        # What the inversion does: the gradient of a gradient, as far as the input.
        model = models.build(name, shape, classes, **settings)
        weights = {key: value.detach() for key, value in model.named_parameters()}
        y = torch.tensor([0, 1, 1])

        def size_of_step(x):
            def loss(weights):
                return nn.functional.cross_entropy(functional_call(model, weights, (x,)), y)

            return sum((g**2).sum() for g in grad(loss)(weights).values())

        slope = grad(size_of_step)(inputs(shape))
        assert bool(slope.isfinite().all())
        assert float(slope.abs().max()) > 0


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("lenet", (1, 8, 8)),
        ("lenet", (784,)),
        ("lenet", (28, 28)),
        ("digits", (1, 28, 28)),
        ("cnn1d", (6, 15)),
        ("cnn1d", (1, 28, 28)),
        ("resnet18", (3, 4, 4)),
        ("resnet18", (225,)),
    ],
)
def test_a_wrong_input_shape_is_refused(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=f"Inputs of model '{name}' should be") as error:
        models.build(name, shape, 10)
    assert str(shape) in str(error.value)


def test_the_smallest_shapes_that_are_taken_work() -> None:
    for name, shape in (("lenet", (1, 16, 16)), ("cnn1d", (2, 16)), ("cnn1d", (16,))):
        assert models.build(name, shape, 2)(inputs(shape)).shape == (3, 2)


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        ("mlp", {"hiden": [3]}, "one of: hidden. Found 'hiden'. Did you mean 'hidden'"),
        ("lenet", {"hidden": [3]}, r"\(none\)"),
        ("mlp", {"hidden": []}, "one or more whole numbers"),
        ("mlp", {"hidden": [3, 0]}, "whole numbers from 1"),
        ("mlp", {"hidden": 64}, "Found 64"),
        ("mlp", {"hidden": [2.5]}, "whole numbers"),
        ("mlp", {"hidden": [True]}, "whole numbers"),
        ("resnet18", {"stem": "mnist"}, "'cifar', 'tinyimagenet', 'imagenet'"),
        ("resnet18", {"stem": "imagenet"}, "32×32 or more with the imagenet stem"),
        ("resnet18", {"groups": 3}, "divide every width"),
        ("resnet18", {"groups": 0}, "groups"),
        ("resnet18", {"widths": [64, 64]}, "4 whole numbers"),
    ],
)
def test_wrong_settings_are_refused(name: str, settings: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        models.build(name, (1, 28, 28), 10, **settings)


@pytest.mark.parametrize("shape", [(), (0, 28, 28), (1, -1), (1.0, 28, 28)])
def test_what_is_no_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="input_shape"):
        models.build("mlp", shape, 10)


@pytest.mark.parametrize("classes", [0, 1, True, 2.0])
def test_too_few_classes_are_refused(classes: int) -> None:
    with pytest.raises(ConfigError, match="num_classes"):
        models.build("mlp", (3,), classes)


def test_an_unknown_name_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'lenet'"):
        models.build("lennet", (1, 28, 28), 10)


def test_a_model_of_ones_own() -> None:
    def linear(input_shape, num_classes, *, bias=True):
        return nn.Linear(input_shape[0], num_classes, bias)

    models.register("linear", linear)
    assert models.names()[-1] == "linear"
    first = models.build("linear", (3,), 2, seed=5, bias=False)
    assert first.bias is None
    assert torch.equal(first.weight, models.build("linear", (3,), 2, seed=5, bias=False).weight)
    with pytest.raises(ConfigError, match="force=True"):
        models.register("linear", linear)
    with pytest.raises(ConfigError, match="empty"):
        models.register("", linear)
    models.register("linear", lambda shape, classes, **settings: nn.Identity(), force=True)
    assert isinstance(models.build("linear", (3,), 2, anything=1), nn.Identity)


def test_the_global_default_device_does_not_matter() -> None:
    before = models.build("digits", (1, 8, 8), 10)
    with torch.device("meta"):
        after = models.build("digits", (1, 8, 8), 10)
    for old, new in zip(before.parameters(), after.parameters(), strict=True):
        assert torch.equal(old, new)
