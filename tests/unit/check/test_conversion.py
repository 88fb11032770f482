import dataclasses

import pytest
import torch
from torch import nn

import unstale as us
from unstale import data, models
from unstale.check import check_conversion
from unstale.errors import ConfigError, ModelError

LOCAL = us.LocalSpec(lr=0.1, epochs=2)
INPUTS = us.InputSpec((6,), 3, -2.0, 2.0)
# Fits that are poor but not refused.
SHORT = us.Inversion(iterations=4, warm_iterations=2, restart_loss=0.0, max_loss=10.0)
QUICK = {
    "staleness": 3,
    "conversions": 4,
    "clients": 4,
    "samples": 12,
    "method": us.Convert(inversion=SHORT),
}


def own_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


def quick(model=None, **changes):
    settings = {"local": LOCAL, "inputs": INPUTS, **QUICK, **changes}
    return check_conversion(own_model() if model is None else model, **settings)


def test_digits_with_one_class_per_client():
    digits = data.load("digits")
    model = models.build("digits", digits.input_shape, digits.num_classes, seed=0)
    mine = [torch.nonzero(digits.y_train == k)[:40, 0] for k in range(10)]
    found = check_conversion(
        model,
        local=us.LocalSpec(lr=0.1, momentum=0.5, epochs=5),
        inputs=us.InputSpec(digits.input_shape, 10, digits.low, digits.high),
        data=[(digits.x_train[index], digits.y_train[index]) for index in mine],
        slow=[5],
        conversions=3,
    )
    assert [(m.client, m.arrival) for m in found.measured] == [(5, 0), (5, 1), (5, 2)]
    assert (found.clients, found.random_data, found.failures) == (10, False, ())
    assert found.verdict in ("helps", "helps a little")
    assert 0.005 < found.in_run.stale.cosine < 1
    assert found.in_run.converted.l2 < found.in_run.stale.l2 / 2
    assert found.first.seconds > 0


def test_an_own_model_and_random_data():
    model = own_model()
    before = {n: p.clone() for n, p in model.state_dict().items()}
    seen = []
    found = quick(model, progress=lambda done, total: seen.append((done, total)))
    assert found.random_data
    assert [(m.client, m.arrival) for m in found.measured] == [(0, i) for i in range(4)]
    versions = 10 + 3 * 5 + 3 + 1
    assert seen == [(i + 1, versions) for i in range(versions)]
    assert all(torch.equal(before[n], p) for n, p in model.state_dict().items())
    again, other = quick(), quick(seed=1)
    assert [m.used for m in again.measured] == [m.used for m in found.measured]
    assert [m.stale for m in other.measured] != [m.stale for m in found.measured]


def test_one_data_set_is_split():
    x, y = torch.rand(60, 6, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 3
    found = quick(data=(x, y))
    assert (found.clients, found.random_data, found.staleness) == (4, False, 3)
    assert quick(data=(x.double(), y.int())).clients == 4  # taken to the model's dtype


@pytest.mark.parametrize(
    ("conversions", "slow", "expected"),
    [(2, None, (1, 2)), (6, None, (2, 3)), (10, None, (2, 5)), (10, [3], (1, 10))],
)
def test_so_many_conversions(conversions, slow, expected):
    found = quick(conversions=conversions, slow=slow)
    clients, arrivals = ({getattr(m, k) for m in found.measured} for k in ("client", "arrival"))
    assert (len(clients), len(arrivals)) == expected
    assert len(found.measured) == conversions


def test_every_update_is_converted_whatever_the_settings():
    """Selection, switching back and the budget of a server are left out."""
    budget, uniqueness = us.Budget(max_conversions=1), us.Uniqueness(threshold=9)
    bounded = us.Convert(inversion=SHORT, budget=budget, uniqueness=uniqueness)
    found = quick(conversions=6, method=bounded)
    assert [m.kinds[0] for m in found.measured] == ["converted"] * 6


def test_settings_count():
    """No fit is good enough for these, and the check says so."""
    strict = us.Convert(inversion=dataclasses.replace(SHORT, max_loss=1e-9))
    found = quick(method=us.Method(strict))
    assert found.verdict == "does not work"
    assert len(found.failures) == 4
    assert found.in_run.converted == found.in_run.stale
    assert not found.thorough
    thorough = us.method("convert", preset="thorough")
    assert quick(method=thorough, conversions=2, samples=2, staleness=1).thorough


def test_training_that_diverges():
    found = quick(local=us.LocalSpec(lr=1e30, epochs=5))
    assert found.verdict == "does not work"


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"inputs": us.InputSpec((5,), 3, -2.0, 2.0)}, r"take inputs of the shape \(5,\)"),
        ({"inputs": us.InputSpec((6,), 4, -2.0, 2.0)}, "give 4 classes"),
        ({"data": (torch.rand(0, 6), torch.zeros(0).long())}, "at least one sample"),
        ({"data": (torch.zeros(40, 5), torch.zeros(40).long())}, r"shape \(6,\)"),
        ({"samples": 0}, "`samples` should be a positive integer"),
        ({"conversions": 1}, "`conversions` should be at least 2"),
        ({"staleness": 0}, "`staleness` should be at least 1"),
        ({"clients": 1}, "more clients than the 1 slow ones"),
        ({"slow": [4]}, "different clients from 0 to 3"),
        ({"slow": []}, "different clients from 0 to 3"),
        ({"slow": [1, 1], "conversions": 10}, "different clients from 0 to 3"),
        ({"method": us.method("drop")}, "`method` should be us.Convert"),
        ({"method": "convert"}, "`method` should be us.Convert"),
        ({"device": "nope"}, "device should be one that torch has here"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_bad_input(changes, match):
    with pytest.raises(ConfigError, match=match):
        quick(**changes)


def test_a_model_that_cannot_be_trained():
    with pytest.raises(ModelError, match="Dropout"):
        quick(nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.5)))
