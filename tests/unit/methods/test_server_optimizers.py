"""Server optimizers against the published formulas, worked out by hand on three weights."""

import json
import math

import pytest
import torch

import unstale as us
from unstale.errors import CheckpointError, ConfigError
from unstale.methods import SERVER_OPTIMIZERS, Plain
from unstale.methods.server_optimizer_registry import (
    as_server_optimizer,
    optimizer_of,
    optimizer_table,
)
from unstale.params import add, clone

START = (1.0, -2.0, 0.0)
CHANGES = ((0.5, -0.25, 0.0), (0.1, 0.25, 0.0), (-0.2, 0.0, 0.3))


def three(*values):
    return {"w": torch.tensor(values, dtype=torch.float64)}


def path(optimizer, changes=CHANGES, start=START):
    """The weights after each change."""
    params, state, found = three(*start), optimizer.init(), []
    for change in changes:
        moved = optimizer.move(params, three(*change), state)
        params, state = moved.params, moved.state
        found.append(params["w"].tolist())
    return found, state


def test_plain_adds_the_change_to_the_bit():
    params = {"w": torch.randn(50), "b": torch.randn(3)}
    change = {"w": torch.randn(50), "b": torch.randn(3)}
    moved = Plain().move(params, change, {})
    assert all(torch.equal(moved.params[n], add(params, change)[n]) for n in params)
    assert moved.state == {}


def test_momentum_by_hand():
    r"""Hsu et al.: v ← βv + Δ, w ← w + ηv, with β = 1/2 and η = 2.

    v: (0.5, -0.25, 0), then (0.25 + 0.1, -0.125 + 0.25, 0) = (0.35, 0.125, 0), then
    (0.175 - 0.2, 0.0625, 0.3) = (-0.025, 0.0625, 0.3).
    """
    found, state = path(us.FedAvgM(lr=2.0, momentum=0.5))
    assert found[0] == pytest.approx([2.0, -2.5, 0.0])
    assert found[1] == pytest.approx([2.7, -2.25, 0.0])
    assert found[2] == pytest.approx([2.65, -2.125, 0.6])
    assert state["velocity"]["w"].tolist() == pytest.approx([-0.025, 0.0625, 0.3])


def test_momentum_zero_is_fedavg_with_a_learning_rate():
    found, _ = path(us.FedAvgM(lr=1.0, momentum=0.0))
    plain, _ = path(Plain())
    assert found == plain


# Algorithm 2 of Reddi et al. on the first weight, with β₁ = 1/2, β₂ = 3/4, τ = 0.1, η = 1 and
# v₋₁ = τ² = 0.01. Its changes are 0.5, 0.1, -0.2; so m = 0.25, 0.175, -0.0125.
FIRST = (0.25, 0.175, -0.0125)
SECOND = {
    "fedadagrad": (0.01 + 0.25, 0.26 + 0.01, 0.27 + 0.04),
    "fedadam": (
        0.75 * 0.01 + 0.25 * 0.25,  # 0.07
        0.75 * 0.07 + 0.25 * 0.01,  # 0.055
        0.75 * 0.055 + 0.25 * 0.04,  # 0.05125
    ),
    "fedyogi": (
        0.01 + 0.25 * 0.25,  # below the square: grows, 0.0725
        0.0725 - 0.25 * 0.01,  # above it: falls, 0.07
        0.07 - 0.25 * 0.04,  # 0.06
    ),
}


@pytest.mark.parametrize("name", SECOND)
def test_adaptive_ones_by_hand(name):
    settings = {"lr": 1.0, "beta1": 0.5, "tau": 0.1}
    if name != "fedadagrad":
        settings["beta2"] = 0.75
    found, state = path(as_server_optimizer({"name": name, **settings}))
    weight = START[0]
    for m, v, now in zip(FIRST, SECOND[name], found, strict=True):
        weight += m / (math.sqrt(v) + 0.1)
        assert now[0] == pytest.approx(weight, rel=1e-12)
    assert state["first"]["w"][0].item() == pytest.approx(FIRST[-1])
    assert state["second"]["w"][0].item() == pytest.approx(SECOND[name][-1])


@pytest.mark.parametrize("name", SECOND)
def test_a_weight_without_any_change_stays(name):
    """As frozen parts do: 0/(√v + τ) is 0, also where v begins with 0."""
    for initial_v in (None, 0.0):
        optimizer = as_server_optimizer({"name": name, "initial_v": initial_v})
        found, _ = path(optimizer, changes=((0.1, 0.0, 0.0), (0.2, 0.0, 0.1)))
        assert [w[1] for w in found] == [-2.0, -2.0]
        assert found[0][2] == 0.0 != found[1][2]


def test_adagrad_has_no_momentum_by_default():
    optimizer = us.FedAdagrad(lr=0.5, tau=1.0, initial_v=0.0)
    found, _ = path(optimizer, changes=((3.0, 0.0, 0.0), (4.0, 0.0, 0.0)))
    assert found[0][0] == pytest.approx(1 + 0.5 * 3 / (3 + 1))
    assert found[1][0] - found[0][0] == pytest.approx(0.5 * 4 / (5 + 1))


@pytest.mark.parametrize("name", SERVER_OPTIMIZERS)
def test_arguments_are_not_changed_and_types_are_kept(name):
    optimizer = as_server_optimizer(name)
    params, change = (
        {"w": torch.randn(3), "b": torch.randn(2)},
        {"w": torch.ones(3), "b": torch.ones(2)},
    )
    before = clone(params), clone(change)
    first = optimizer.move(params, change, optimizer.init())
    kept = json.dumps(str(first.state))
    optimizer.move(first.params, change, first.state)
    assert json.dumps(str(first.state)) == kept
    for now, then in zip((params, change), before, strict=True):
        assert all(torch.equal(now[n], then[n]) for n in now)
    assert list(first.params) == ["w", "b"]
    assert {p.dtype for p in first.params.values()} == {torch.float32}


@pytest.mark.parametrize("name", SERVER_OPTIMIZERS)
def test_names_tables_and_objects(name):
    optimizer = as_server_optimizer(name)
    table = json.loads(json.dumps(optimizer_table(optimizer)))
    assert table["name"] == name
    assert optimizer_of(table) == optimizer == as_server_optimizer(optimizer)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("fedadm", "A server optimizer should be one of: .*Did you mean 'fedadam'"),
        ({"name": "fedadam", "beta_2": 0.9}, "setting of server optimizer 'fedadam'.*'beta2'"),
        ({"lr": 0.1}, "A table of a server optimizer should have its `name`"),
        (us.Drop(5), "`optimizer` should be a name"),
        (us.FedAdam, "`optimizer` should be a name"),
        ({"name": "fedavgm", "momentum": 1.0}, r"fedavgm: `momentum` should be in \[0, 1\)"),
        ({"name": "fedavgm", "lr": 0}, "fedavgm: `lr` should be a number above 0"),
        ({"name": "fedyogi", "beta2": -0.1}, r"fedyogi: `beta2` should be in \[0, 1\)"),
        ({"name": "fedadam", "beta1": True}, r"fedadam: `beta1` should be in \[0, 1\)"),
        ({"name": "fedadagrad", "tau": 0.0}, "fedadagrad: `tau` should be a number above 0"),
        ({"name": "fedadam", "initial_v": -1.0}, "`initial_v` should be at least 0"),
        ({"name": "fedadam", "lr": math.nan}, "fedadam: `lr` should be a number above 0"),
    ],
)
def test_what_is_wrong_is_said(value, message):
    with pytest.raises(ConfigError, match=message):
        as_server_optimizer(value)


class Half:
    """An optimizer of one's own."""

    def init(self):
        return {}

    def move(self, params, change, state):
        from unstale.methods.server_optimizers import Moved

        return Moved(add(params, change, 0.5), state)


def test_one_of_ones_own_is_taken_and_has_to_be_given_again():
    half = Half()
    assert as_server_optimizer(half) is half
    assert optimizer_table(half) == {"name": "given", "is": "Half"}
    with pytest.raises(CheckpointError, match=r"Server.load\(dir, optimizer=...\)"):
        optimizer_of(optimizer_table(half))
