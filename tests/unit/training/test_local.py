"""`local_update` is held to `torch.optim`, and refuses what it cannot train faithfully."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import unstale as us
from unstale.errors import ConfigError, ModelError, UnknownNameError
from unstale.seeding import generator


def small_model(seed: int = 0, dtype: torch.dtype = torch.float64) -> nn.Module:
    """A model with a convolution, a frozen layer and weights from an explicit generator."""
    model = nn.Sequential(
        nn.Conv1d(2, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(9, 5), nn.Tanh(), nn.Linear(5, 3)
    )
    model = model.to(dtype)
    rng = generator(seed, "weights")
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=rng, dtype=dtype) * 0.5)
    return model


def small_data(n: int, soft: bool, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    rng = generator(seed, "data")
    x = torch.randn(n, 2, 4, generator=rng, dtype=torch.float64)
    if soft:
        return x, torch.randn(n, 3, generator=rng, dtype=torch.float64).softmax(-1)
    return x, torch.randint(0, 3, (n,), generator=rng)


def by_torch_optim(model, x, y, spec: us.LocalSpec, shuffle: torch.Generator | None):
    """The same recipe with torch.optim on a copy of the model: the reference."""
    model = copy.deepcopy(model)
    start = {n: p.detach().clone() for n, p in model.named_parameters()}
    trained = [p for p in model.parameters() if p.requires_grad]
    if spec.optimizer == "sgd":
        opt = torch.optim.SGD(
            trained, lr=spec.lr, momentum=spec.momentum, weight_decay=spec.weight_decay
        )
    else:
        opt = torch.optim.Adam(
            trained, lr=spec.lr, betas=spec.betas, eps=spec.eps, weight_decay=spec.weight_decay
        )
    size = spec.batch_size or len(x)
    left = spec.steps if spec.steps is not None else (spec.epochs or 1) * -(-len(x) // size)
    while left:
        order = torch.arange(len(x))
        if shuffle is not None and size < len(x):
            order = torch.randperm(len(x), generator=shuffle)
        for rows in order.split(size):
            if not left:
                break
            opt.zero_grad()
            out = model(x[rows])
            if spec.loss == "mse":
                target = y[rows] if y.is_floating_point() else F.one_hot(y[rows], 3).double()
                loss = ((out - target) ** 2).mean()
            else:
                loss = F.cross_entropy(out, y[rows])
            if spec.prox:
                named = dict(model.named_parameters())
                loss = loss + spec.prox / 2 * sum(
                    ((p - start[n]) ** 2).sum() for n, p in named.items() if p.requires_grad
                )
            loss.backward()
            opt.step()
            left -= 1
    return {n: p.detach() - start[n] for n, p in model.named_parameters()}


recipes = st.builds(
    lambda length, **rest: us.LocalSpec(**dict([length]), **rest),
    length=st.tuples(st.sampled_from(["epochs", "steps"]), st.integers(1, 4)),
    batch_size=st.sampled_from([None, 2, 3, 50]),
    lr=st.sampled_from([0.01, 0.3]),
    optimizer=st.sampled_from(["sgd", "adam"]),
    weight_decay=st.sampled_from([0.0, 0.1]),
    prox=st.sampled_from([0.0, 0.5]),
    loss=st.sampled_from(["cross_entropy", "mse"]),
)


@settings(max_examples=120, deadline=None)
@given(
    spec=recipes,
    momentum=st.sampled_from([0.0, 0.5, 0.9]),
    soft=st.booleans(),
    shuffled=st.booleans(),
    frozen=st.booleans(),
    differentiable=st.booleans(),
)
def test_equals_torch_optim(spec, momentum, soft, shuffled, frozen, differentiable):
    if spec.optimizer == "sgd":
        spec = us.LocalSpec(
            **{f: getattr(spec, f) for f in spec.__dataclass_fields__ if f != "momentum"},
            momentum=momentum,
        )
    model = small_model()
    if frozen:
        model[0].weight.requires_grad_(False)
    x, y = small_data(7, soft)
    rng = (lambda: generator(3, "shuffle")) if shuffled else (lambda: None)
    expected = by_torch_optim(model, x, y, spec, rng())
    got = us.local_update(
        model,
        us.params_of(model),
        x.clone().requires_grad_(differentiable),
        y,
        spec,
        generator=rng(),
    )
    assert list(got) == list(expected)
    for name, value in expected.items():
        torch.testing.assert_close(got[name].detach(), value, rtol=1e-9, atol=1e-12)
        is_frozen = frozen and name == "0.weight"
        assert got[name].requires_grad == (differentiable and not is_frozen)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_gradients_flow_through_all_steps(optimizer):
    """The derivative of the update by inputs, labels and weights, against differences."""
    model = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 2)).double()
    rng = generator(0, "weights")
    params = {
        n: torch.randn(p.shape, generator=rng, dtype=torch.float64)
        for n, p in model.named_parameters()
    }
    spec = us.LocalSpec(lr=0.2, steps=3, batch_size=2, optimizer=optimizer, prox=0.1)
    if optimizer == "sgd":
        spec = us.LocalSpec(lr=0.2, steps=3, batch_size=2, momentum=0.5, prox=0.1)
    x = torch.randn(4, 3, generator=rng, dtype=torch.float64, requires_grad=True)
    logits = torch.randn(4, 2, generator=rng, dtype=torch.float64, requires_grad=True)
    first = params["0.weight"].requires_grad_()

    def of(x, logits, first):
        start = {**params, "0.weight": first}
        delta = us.local_update(model, start, x, logits.softmax(-1), spec)
        return tuple(delta.values())

    assert torch.autograd.gradcheck(of, (x, logits, first), atol=1e-6)


def test_leaves_the_model_its_arguments_and_the_global_generator_alone():
    model = small_model()
    state = torch.get_rng_state()
    before = us.params_of(model)
    params = {n: p + 1 for n, p in before.items()}
    kept = {n: p.clone() for n, p in params.items()}
    x, y = small_data(5, soft=False)
    us.local_update(model, params, x, y, us.LocalSpec(lr=0.1, steps=3))
    assert all(torch.equal(p, before[n]) for n, p in model.named_parameters())
    assert all(torch.equal(params[n], kept[n]) for n in params)
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_every_fault_is_listed_at_once():
    model = nn.Sequential(
        nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.3), nn.BatchNorm1d(4), nn.LSTM(4, 4)
    )
    with pytest.raises(ModelError) as error:
        us.check_model(model)
    text = str(error.value)
    assert all(f"`{i}`" in text for i in (1, 2, 3))
    assert "`4`" not in text
    assert text.count("running statistics") == 2


def test_layers_in_eval_mode_are_accepted():
    model = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    model.eval()
    delta = us.local_update(
        model, us.params_of(model), torch.ones(3, 2), torch.tensor([0, 1, 0]), us.LocalSpec()
    )
    assert set(delta) == {n for n, _ in model.named_parameters()}
    assert torch.equal(model[1].running_mean, torch.zeros(4))


class WritesItsBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += 1
        return self.layer(x)


class DropsFunctionally(nn.Linear):
    def forward(self, x):
        return F.dropout(super().forward(x), 0.5, training=True)


def test_a_buffer_written_in_the_forward_pass_is_refused():
    model = WritesItsBuffer()
    with pytest.raises(ModelError, match="Buffer `seen` changes"):
        us.local_update(
            model, us.params_of(model), torch.ones(1, 2), torch.tensor([0]), us.LocalSpec()
        )
    assert model.seen == 0, "the caller's model must not change"


def test_randomness_in_the_forward_pass_is_refused():
    model = DropsFunctionally(2, 2)
    with pytest.raises(ModelError, match="draws random numbers"):
        us.local_update(
            model, us.params_of(model), torch.ones(1, 2), torch.tensor([0]), us.LocalSpec()
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 1, "steps": 1}, "not both"),
        ({"epochs": 0}, "`epochs` should be a positive integer"),
        ({"batch_size": 2.0}, "`batch_size` should be a positive integer"),
        ({"lr": 0}, "`lr` should be above 0"),
        ({"momentum": 1.0}, "`momentum`"),
        ({"optimizer": "adam", "momentum": 0.5}, "belongs to sgd"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        us.LocalSpec(**settings)


def test_unknown_names_name_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'cross_entropy'"):
        us.LocalSpec(loss="crossentropy")
    with pytest.raises(UnknownNameError, match="Did you mean 'adam'"):
        us.LocalSpec(optimizer="adm")


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (torch.ones(0, 2), torch.ones(0, dtype=torch.long)),
        (torch.ones(2, 2), torch.tensor([0])),
        (torch.ones(2, 2), torch.tensor([0.0, 1.0])),
    ],
)
def test_bad_data_is_refused(x, y):
    model = nn.Linear(2, 2)
    with pytest.raises(ConfigError):
        us.local_update(model, us.params_of(model), x, y, us.LocalSpec())


@pytest.mark.parametrize(
    "frozen", [[], ["0.weight", "0.bias"]], ids=["first", "after a frozen one"]
)
def test_group_norm_of_inputs_without_a_gradient(frozen):
    """PyTorch 2.13 ends the process here if images are channels-last."""
    layers = [nn.GroupNorm(4, 8), nn.Flatten(), nn.Linear(8 * 16, 3)]
    model = nn.Sequential(nn.Conv2d(8, 8, 1), *layers) if frozen else nn.Sequential(*layers)
    for name, weight in model.named_parameters():
        weight.requires_grad_(name not in frozen)
    x, y = torch.rand(5, 8, 4, 4), torch.arange(5) % 3
    spec = us.LocalSpec(lr=0.1, epochs=2)
    start = {n: p.detach().clone() for n, p in model.named_parameters()}
    delta = us.local_update(model, start, x.to(memory_format=torch.channels_last), y, spec)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.SGD(weights, lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    for name, weight in model.named_parameters():
        assert torch.allclose(start[name] + delta[name], weight, atol=1e-6), name
