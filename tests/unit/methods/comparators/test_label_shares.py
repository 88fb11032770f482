"""Labels of surrogate data: guessed from updates of real training, given, or even."""

import pytest
import torch
from late_world import LOCAL, samples
from torch import nn

import unstale as us
from unstale.errors import ConfigError
from unstale.methods import SurrogateData
from unstale.methods.comparators.labels import guessed_shares, labels_by
from unstale.params import params_of
from unstale.seeding import generator


def update(delta, client="s"):
    return us.Update(client, 0, delta, 12)


def test_one_step_from_even_predictions_shows_the_excess_over_them():
    """From zero weights p is 1/3, so the bias moves by a multiple of the share minus 1/3."""
    model = nn.Linear(4, 3)
    start = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
    y = torch.tensor([0] + [1] * 6 + [2] * 8)
    x = torch.rand(15, 4, generator=generator(0, "x"))
    delta = us.local_update(model, start, x, y, us.LocalSpec(lr=0.5))
    assert torch.allclose(delta["bias"], 0.5 * (torch.tensor([1, 6, 8]) / 15 - 1 / 3))
    assert guessed_shares(delta, 3) == pytest.approx([0.0, 1 / 4, 3 / 4], abs=1e-6)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("label", [0, 1, 2])
def test_the_class_of_a_client_of_one_class_is_found(world, bias, label):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3, bias=bias))
    rng = generator(1, "weights")
    start = {n: 0.3 * torch.randn(p.shape, generator=rng) for n, p in params_of(model).items()}
    delta = us.local_update(model, start, *samples(label, "any"), LOCAL)
    assert guessed_shares(delta, 3) == pytest.approx([float(c == label) for c in range(3)])


@pytest.mark.parametrize(
    "delta",
    [
        {"w": torch.ones(5, 2), "b": torch.ones(5)},  # nothing has a row for each class
        {"w": torch.zeros(3, 2), "b": torch.zeros(3)},  # nothing was changed
        {"w": torch.ones(3, 2), "b": -torch.ones(3)},  # no class gains
    ],
)
def test_without_a_trace_the_shares_are_even(delta):
    assert guessed_shares(delta, 3) == [1 / 3] * 3


def test_a_fixed_bias_says_nothing_and_the_rows_are_taken():
    delta = {"w": torch.tensor([[1.0, 2.0], [-1.0, 0.0], [1.0, 0.0]]), "b": torch.zeros(3)}
    assert guessed_shares(delta, 3) == [0.75, 0.0, 0.25]


@pytest.mark.parametrize("samples", [1, 7, 16, 128])
def test_labels_are_within_one_of_their_share(samples):
    shares = [0.31, 0.0, 0.46, 0.23]
    counts = torch.bincount(labels_by(shares, samples), minlength=4).tolist()
    assert sum(counts) == samples
    assert all(abs(n - s * samples) < 1 for n, s in zip(counts, shares, strict=True))
    assert counts[1] == 0


def test_known_shares_come_before_the_guess():
    delta = {"b": torch.tensor([1.0, 0.0, 0.0])}
    known = SurrogateData(shares={"s": (0, 2, 2)})
    assert known.shares_of(update(delta), 3) == [0.0, 0.5, 0.5]
    assert known.shares_of(update(delta, "t"), 3) == [1.0, 0.0, 0.0]
    assert SurrogateData(labels="even").shares_of(update(delta), 3) == [1 / 3] * 3
    with pytest.raises(ConfigError, match="3 for 's'"):
        known.shares_of(update(delta), 4)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"labels": "right"}, "one of"),
        ({"max_samples": 0}, "max_samples"),
        ({"max_clients": 1.5}, "max_clients"),
        ({"max_growth": -1}, "max_growth"),
        ({"shares": {"a": [0, 0]}}, "not all 0"),
        ({"shares": {"a": [1, -1]}}, "for 'a'"),
    ],
)
def test_what_cannot_be_is_refused(settings, says):
    with pytest.raises(ConfigError, match=says):
        SurrogateData(**settings)
