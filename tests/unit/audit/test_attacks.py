import pytest
import torch
from torch import nn

from unstale.audit.attacks import (
    Matching,
    converted_surrogates,
    extend_surrogates,
    label_counts,
    label_overlap,
    last_layer,
    match_gradients,
    recover_singles,
    single_label,
    step_size,
)
from unstale.errors import ConfigError, UnknownNameError
from unstale.inversion import InputSpec, Inversion
from unstale.inversion.objective import cosine
from unstale.inversion.target import Target, target_of
from unstale.params import add, flatten, params_of, scale
from unstale.privacy import Protection
from unstale.training.local import LocalSpec, local_update

INPUTS = InputSpec((1, 4, 4), 3, 0.0, 1.0)
NAMES = ("1.weight", "1.bias")
SHORT = Matching(iterations=200, tv=0.0)


@pytest.fixture
def linear():
    """A linear model, whose gradient of one sample holds the sample itself."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3))


def samples(n, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.rand(n, 1, 4, 4, generator=rng), torch.arange(n) % 3


@pytest.mark.parametrize("attack", ["inversion", "matching"])
def test_one_sample_is_recovered_from_its_gradient_and_not_from_little_of_it(linear, attack):
    x, y = samples(3)
    errors = {}
    for protection in (Protection(), Protection(sparsity=0.9)):
        found, labels = recover_singles(
            attack, linear, params_of(linear), x, y, inputs=INPUTS, protection=protection,
            iterations=200, tv=0.0,
        )  # fmt: skip
        errors[protection.sparsity] = float((found - x).square().mean())
        if not protection.sparsity:
            assert labels.tolist() == y.tolist()
    assert errors[0.0] < 1e-3
    # Six of 51 entries do not say what 16 pixels are.
    assert errors[0.9] > 0.02


def test_an_unknown_attack_is_named(linear):
    x, y = samples(1)
    with pytest.raises(UnknownNameError, match="inversion, matching"):
        recover_singles("brute", linear, {}, x, y, inputs=INPUTS, protection=Protection())


def test_noise_has_the_scale_of_the_gradient(linear):
    """Whatever the learning rate of the step: else a small one would be drowned."""
    x, y = samples(3)
    found = {}
    for lr in (1e-3, 1.0):
        found[lr], _ = recover_singles(
            "matching", linear, params_of(linear), x, y, inputs=INPUTS, lr=lr, iterations=60,
            protection=Protection(noise_variance=1e-3),
        )  # fmt: skip
    torch.testing.assert_close(found[1e-3], found[1.0], atol=0.05, rtol=0)
    assert (found[1.0] - x).square().mean() > 1e-4


def test_matching_takes_the_gradient_between_base_and_trained_weights(linear):
    """One step from w₀ + αΔ, with α as it is set, is exactly what is compared."""
    x, y = samples(2)
    base = params_of(linear)
    delta = local_update(linear, base, x, y, LocalSpec(lr=0.5, steps=4))
    target = target_of(base, delta, NAMES, 0.0)
    found = match_gradients(
        linear, [target], y[None], inputs=INPUTS, settings=Matching(iterations=3, alpha=0.25)
    )
    at = add(base, delta, 0.25)
    step = local_update(linear, at, found.x[0], y, LocalSpec(lr=1.0, steps=1))
    wanted = cosine(flatten(step), target.delta)
    assert float(found.loss[0]) == pytest.approx(float(wanted), abs=1e-5)
    assert found.alpha.tolist() == [0.25]


def test_one_by_one_and_batched_gradients_agree(linear):
    x, y = samples(3)
    base = params_of(linear)
    targets = [
        target_of(
            base, local_update(linear, base, x[i : i + 1], y[i : i + 1], LocalSpec()), NAMES, 0.3
        )
        for i in range(3)
    ]
    together = match_gradients(linear, targets, y[:, None], inputs=INPUTS, settings=SHORT)
    again = match_gradients(linear, targets, y[:, None], inputs=INPUTS, settings=SHORT)
    assert torch.equal(together.x, again.x)
    # Alone the problem starts from the same noise, and goes through the other form.
    alone = match_gradients(linear, targets[:1], y[:1, None], inputs=INPUTS, settings=SHORT)
    assert float(alone.loss[0]) == pytest.approx(float(together.loss[0]), abs=1e-3)
    more = match_gradients(
        linear, targets, y[:, None], inputs=INPUTS, settings=Matching(iterations=20, restarts=2)
    )
    one = match_gradients(
        linear, targets, y[:, None], inputs=INPUTS, settings=Matching(iterations=20)
    )
    assert (more.loss <= one.loss).all()


def test_surrogate_extension_recovers_a_sample_from_many_steps():
    """It beats gradient matching at the base, which takes the update for one gradient."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.Sigmoid(), nn.Linear(12, 3))
    base = params_of(model)
    x, y = samples(1, seed=2)
    delta = local_update(model, base, x, y, LocalSpec(lr=2.0, steps=20))
    target = target_of(base, delta, tuple(base), 0.0)
    plain = match_gradients(model, [target], y[None], inputs=INPUTS, settings=SHORT)
    extended = extend_surrogates(model, [target], y[None], inputs=INPUTS, settings=SHORT)
    assert float(extended.loss[0]) < float(plain.loss[0]) / 3
    assert 0 < float(extended.alpha[0]) < 1
    far = [float((found.x[0] - x).square().mean()) for found in (extended, plain)]
    assert far[0] < 0.01
    assert far[0] < far[1]


def test_extension_finds_nothing_in_an_update_that_is_noise(linear):
    base = params_of(linear)
    noise = torch.randn(51, generator=torch.Generator().manual_seed(0))
    found = extend_surrogates(
        linear, [Target(base, noise)], torch.tensor([[0]]), inputs=INPUTS, settings=SHORT
    )
    assert float(found.loss[0]) > 0.3


@pytest.mark.parametrize("bias", [True, False])
def test_the_label_of_one_sample_is_always_told(bias):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3, bias=bias))
    x, y = samples(12)
    for i in range(12):
        one = local_update(model, params_of(model), x[i : i + 1], y[i : i + 1], LocalSpec())
        assert single_label(model, one, 3) == int(y[i])


@pytest.mark.parametrize("bias", [True, False])
def test_class_counts_of_one_step_are_exact_where_predictions_are_known(bias):
    """The probes are the client's own samples: then p̄ is no estimate."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3, bias=bias))
    x = torch.full((10, 1, 4, 4), 0.5)
    y = torch.tensor([0] * 6 + [2] * 4)
    base, local = params_of(model), LocalSpec(lr=0.1)
    delta = local_update(model, base, x, y, local)
    settings = {"local": local, "num_examples": 10, "classes": 3}
    assert label_counts(model, base, delta, probes=x, **settings).tolist() == [6, 0, 4]
    assert label_counts(model, base, scale(delta, -1), probes=x, **settings).tolist() != [6, 0, 4]


def test_class_counts_over_several_steps():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    x, _ = samples(20)
    y = torch.tensor([1] * 15 + [2] * 5)
    base, local = params_of(model), LocalSpec(lr=0.1, steps=8, momentum=0.5)
    delta = local_update(model, base, x, y, local)
    noise = torch.rand(64, 1, 4, 4, generator=torch.Generator().manual_seed(3))
    found = label_counts(model, base, delta, local=local, num_examples=20, classes=3, probes=noise)
    truth = torch.tensor([0, 15, 5])
    assert label_overlap(found, truth) >= 0.85
    assert label_overlap(torch.tensor([20, 0, 0]), truth) == 0


def test_step_size_is_what_a_constant_gradient_is_multiplied_by():
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    for _ in range(7):
        weight.grad = torch.ones(1)
        optimizer.step()
    assert step_size(LocalSpec(lr=0.1, momentum=0.9, steps=7), 5) == pytest.approx(-weight.item())
    assert step_size(LocalSpec(optimizer="adam"), 5) is None


def test_models_without_a_last_layer_say_so():
    model = nn.Sequential(nn.Conv2d(1, 3, 4), nn.Flatten())
    assert last_layer(model, 3) is None
    with pytest.raises(ConfigError, match="The model has none"):
        single_label(model, {}, 3)
    with pytest.raises(ConfigError, match="Found adam"):
        label_counts(
            nn.Linear(2, 3), {}, {}, local=LocalSpec(optimizer="adam"), num_examples=1,
            classes=3, probes=torch.zeros(1, 2),
        )  # fmt: skip


def test_conversion_of_several_updates_starts_from_the_surrogate_before(linear):
    x, y = samples(1)
    local = LocalSpec(lr=0.1, steps=2)
    first = params_of(linear)
    bases = [first, {n: p + 0.01 for n, p in first.items()}]
    sent = [[(base, local_update(linear, base, x, y, local)) for base in bases]]
    settings = Inversion(min_samples=1, max_samples=1, iterations=60)
    found = converted_surrogates(linear, sent, [1], local=local, inputs=INPUTS, settings=settings)[
        0
    ]
    assert found.first is not None
    assert found.last is not None
    far = [float((s.x - x).square().mean()) for s in (found.first, found.last)]
    assert far[1] <= far[0] < 0.01
    one = converted_surrogates(
        linear, [sent[0][:1]], [1], local=local, inputs=INPUTS, settings=settings
    )[0]
    assert torch.equal(one.first.x, found.first.x)
    assert one.last is one.first


@pytest.mark.parametrize(
    "wrong", [{"iterations": 0}, {"restarts": 0}, {"tv": -1.0}, {"lr": float("inf")}]
)
def test_wrong_settings_of_matching(wrong):
    with pytest.raises(ConfigError, match=f"`{next(iter(wrong))}` should be"):
        Matching(**wrong)
