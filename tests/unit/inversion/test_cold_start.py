"""Cold fits that try several starts."""

import math
from dataclasses import dataclass, replace

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

import unstale as us
from unstale.inversion import InputSpec, Inversion, Request, Surrogate, cold_start, fit_many
from unstale.inversion.cold_start import chosen, cold_starts
from unstale.inversion.solver import solve
from unstale.inversion.surrogate import start_of
from unstale.inversion.target import target_of
from unstale.params import add, cosine_distance
from unstale.seeding import generator

SETTINGS = Inversion(history=1, max_samples=20, iterations=100, max_loss=0.3)


@dataclass
class Smooth:
    """Digits in a smooth network of strided convolutions, one class for each client."""

    model: nn.Module
    local: us.LocalSpec
    inputs: InputSpec
    weights: list[us.Params]
    data: dict[int, tuple[torch.Tensor, torch.Tensor]]

    def update(self, client: int, version: int) -> us.Params:
        return us.local_update(self.model, self.weights[version], *self.data[client], self.local)

    def request(self, client: int, **rest) -> Request:
        return Request(self.weights[15], self.update(client, 15), 40, seed=client, **rest)

    def fit(self, *requests, **changes):
        return fit_many(
            self.model, requests, local=self.local, inputs=self.inputs,
            settings=replace(SETTINGS, **changes),
        )  # fmt: skip


@pytest.fixture(scope="module")
def smooth() -> Smooth:
    digits = load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32).view(-1, 1, 8, 8) / 16
    y = torch.tensor(digits.target)
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3, 2, 1), nn.Tanh(), nn.Conv2d(6, 12, 3, 2, 1), nn.Tanh(),
        nn.Flatten(), nn.Linear(48, 10),
    )  # fmt: skip
    rng = generator(0, "w")
    first = {
        n: torch.randn(p.shape, generator=rng) * (p[0].numel() ** -0.5 if p.ndim > 1 else 0.0)
        for n, p in model.named_parameters()
    }
    local = us.LocalSpec(lr=0.1, momentum=0.5, steps=5)
    data = {c: (x[y == c][:40], y[y == c][:40]) for c in range(10)}
    weights = [first]
    for _ in range(30):
        now = weights[-1]
        for client in data:
            delta = us.local_update(model, weights[-1], *data[client], local)
            now = add(now, delta, 1 / len(data))
        weights.append(now)
    return Smooth(model, local, InputSpec((1, 8, 8), 10, 0.0, 1.0), weights, data)


def test_where_the_plain_start_stalls_another_goes_on(smooth):
    stalled, plain = smooth.fit(smooth.request(3), smooth.request(0), start="grey")
    assert not stalled.ok, "the problem should be one"
    assert plain.ok
    found, same = smooth.fit(smooth.request(3), smooth.request(0))
    assert found.ok
    assert found.loss < 0.1
    assert same.ok
    assert len(found.losses) <= SETTINGS.iterations
    # The estimate is worth it.
    truth, stale = smooth.update(3, 30), smooth.update(3, 15)
    recipe = SETTINGS.local_for(smooth.local, 40)
    estimate = us.local_update(
        smooth.model, smooth.weights[30], found.surrogate.x, found.surrogate.labels, recipe
    )
    assert cosine_distance(estimate, truth) < cosine_distance(stale, truth) / 2


def test_each_client_keeps_or_drops_its_own_starts(smooth):
    """One goes on from its plain start and one does not, in the same batch."""
    found = smooth.fit(smooth.request(0), smooth.request(3))
    grey = smooth.fit(smooth.request(0), smooth.request(3), start="grey")
    trials = SETTINGS.trial_iterations
    near = {"rtol": 1e-3, "atol": 1e-4}
    first = [torch.tensor(fit.losses[:trials]) for fit in found]
    plain = [torch.tensor(fit.losses[:trials]) for fit in grey]
    torch.testing.assert_close(first[0], plain[0], **near)
    assert not torch.allclose(first[1], plain[1], **near)


def test_several_clients_at_once_are_as_one_by_one(smooth):
    # Before rounding is amplified by the fit.
    short = {"iterations": 24, "trial_iterations": 10, "patience": 0, "max_loss": 9.0}
    requests = [smooth.request(c) for c in (0, 3, 8)]
    together = smooth.fit(*requests, **short)
    small = smooth.fit(*requests, **short, at_once=2)  # the starts of a client are parted
    for request, a, b in zip(requests, together, small, strict=True):
        (alone,) = smooth.fit(request, **short)
        for other in (b, alone):
            assert len(other.losses) == len(a.losses) == 24
            torch.testing.assert_close(
                torch.tensor(other.losses), torch.tensor(a.losses), rtol=1e-3, atol=1e-4
            )


@pytest.mark.parametrize("name", ["grey", "gaussian", "classes"])
def test_one_start_is_the_solvers_own_fit_to_the_bit(smooth, name):
    few = replace(SETTINGS, start=name, iterations=12, max_loss=9.0)
    request = smooth.request(3)
    (found,) = smooth.fit(request, start=name, iterations=12, max_loss=9.0)
    rng = generator(request.seed, "invert", "start")
    start = start_of(name)(smooth.inputs, 20, few.noise, rng)
    names = [n for n, _ in smooth.model.named_parameters()]
    (plain,) = solve(
        smooth.model, [[target_of(request.base, request.delta, names, 0.0)]], [start],
        local=few.local_for(smooth.local, 40), inputs=smooth.inputs, settings=few,
    )  # fmt: skip
    assert found.losses == plain.losses
    assert torch.equal(found.surrogate.x, plain.surrogate.x)
    assert torch.equal(found.surrogate.y_logits, plain.surrogate.y_logits)


def test_a_trapped_warm_fit_is_repeated_from_several_starts(smooth):
    trap = Surrogate(torch.ones(20, 1, 8, 8), torch.eye(10)[torch.arange(20) % 3] * 40)
    few = {"warm_iterations": 5, "iterations": 30}
    (cold,) = smooth.fit(smooth.request(0), **few)
    (freed,) = smooth.fit(smooth.request(0, warm=trap), **few)
    assert not freed.warm
    assert freed.losses[5:] == cold.losses


def test_a_borrowed_surrogate_is_a_start_where_there_is_one(smooth):
    (lent,) = smooth.fit(smooth.request(0), iterations=60)
    plain = cold_starts(smooth.request(0), smooth.inputs, SETTINGS)
    assert len(plain) == 3
    starts = cold_starts(smooth.request(0, borrowed=lent.surrogate), smooth.inputs, SETTINGS)
    assert torch.equal(starts[3].x, lent.surrogate.x)
    # Another shape of inputs, or a single start, does not use it.
    alien = Surrogate(torch.zeros(20, 5), torch.zeros(20, 10))
    assert len(cold_starts(smooth.request(0, borrowed=alien), smooth.inputs, SETTINGS)) == 3
    single = replace(SETTINGS, start="grey")
    assert len(cold_starts(smooth.request(0, borrowed=lent.surrogate), smooth.inputs, single)) == 1
    # Where the plain start stalls, it goes on if it is the best: here it fits already.
    request = smooth.request(3)
    (own,) = smooth.fit(request, iterations=60)
    again = replace(request, borrowed=own.surrogate)
    (found,) = smooth.fit(again, start="grey+borrowed", iterations=30)
    assert found.losses[0] == pytest.approx(own.loss, rel=1e-3)


def test_starts_do_not_depend_on_one_another(smooth):
    both = cold_starts(smooth.request(1), smooth.inputs, replace(SETTINGS, start="grey+gaussian"))
    for name, start in zip(("grey", "gaussian"), both, strict=True):
        (alone,) = cold_starts(smooth.request(1), smooth.inputs, replace(SETTINGS, start=name))
        assert torch.equal(start.x, alone.x)
        assert torch.equal(start.y_logits, alone.y_logits)


@pytest.mark.parametrize(
    ("losses", "enough", "which"),
    [
        ([0.5, 0.1, 0.2], 0.5, 0),  # good enough: the plain start carries over best
        ([0.6, 0.5, 0.55], 0.5, 0),  # not far behind
        ([0.7, 0.5, 0.4], 0.5, 2),
        ([math.nan, 0.9, 0.8], 0.5, 2),
        ([math.nan, math.inf], 0.5, 0),
        ([0.1, 0.01], 0.0, 1),
    ],
)
def test_which_start_goes_on(losses, enough, which):
    assert chosen(losses, enough) == which


def test_iterations_and_time_are_kept(smooth, monkeypatch):
    (short,) = smooth.fit(smooth.request(0), iterations=7)
    assert len(short.losses) == 7
    (late,) = smooth.fit(smooth.request(0), max_seconds=1e-9)
    assert len(late.losses) == 1
    rows: list[int] = []

    def counted(model, targets, starts, **rest):
        rows.append(len(starts))
        return solve(model, targets, starts, **rest)

    monkeypatch.setattr(cold_start, "solve", counted)
    smooth.fit(*[smooth.request(c) for c in (0, 1, 2)], iterations=6, trial_iterations=2, at_once=4)
    assert rows == [4, 4, 1, 3], "nine starts in batches of four, then three clients"
