"""A stale update becomes nearly the fresh one, and nothing can make that fail badly."""

import pytest
import torch
from torch import nn

import unstale as us
from unstale.errors import ConfigError, ModelError
from unstale.inversion import InputSpec, Inversion, Request, Surrogate, convert, convert_many
from unstale.inversion.solver import solve
from unstale.inversion.target import target_of
from unstale.params import cosine_distance, norm, scale, subtract, zeros_like

WHOLE = Inversion(sparsity=0)


def assert_same(a, b, **tolerance):
    for name, value in a.delta.items():
        torch.testing.assert_close(b.delta[name], value, **tolerance)
    assert a.iterations == b.iterations


@pytest.mark.parametrize("version", [0, 10])
@pytest.mark.parametrize("client", ["a", "b"])
def test_far_closer_to_the_fresh_update_than_the_stale_one(problem, client, version):
    request = problem.request(client, version)
    found = convert_many(problem.model, [request], settings=WHOLE, **problem.parts)[0]
    assert found.ok, found.reason
    stale = problem.error(client, request.delta)
    assert stale > 0.01, "the problem should be one"
    assert problem.error(client, found.delta) < stale / 5
    size = norm(found.delta) / norm(problem.update(client, 40))
    assert 0.8 < size < 1.2


def test_one_layer_in_closed_form():
    """One step of one linear layer: the fit is exact, and so is the carrying over.

    A single sample changes weights by lr·(label − softmax)·xᵀ and biases without x, so
    weights and biases together fix both the sample and its label.
    """
    model = nn.Linear(3, 2).double()
    local = us.LocalSpec(lr=0.5, steps=1)
    base = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
    current = {
        n: torch.full_like(p, 0.3) * torch.arange(1, p.numel() + 1).view_as(p)
        for n, p in model.named_parameters()
    }
    x = torch.tensor([[0.2, 0.9, 0.5]], dtype=torch.float64)
    y = torch.tensor([[0.9, 0.1]], dtype=torch.float64)
    stale = us.local_update(model, base, x, y, local)
    residual = y[0] - 0.5
    torch.testing.assert_close(stale["weight"], 0.5 * residual.outer(x[0]))
    torch.testing.assert_close(stale["bias"], 0.5 * residual)
    found = convert(
        model,
        base=base,
        current=current,
        delta=stale,
        local=local,
        num_examples=1,
        inputs=InputSpec((3,), 2, 0.0, 1.0),
        settings=Inversion(
            sparsity=0, min_samples=1, iterations=600, tolerance=0.001, max_lr_cuts=6
        ),
    )
    assert found.loss < 0.003
    torch.testing.assert_close(found.surrogate.x, x, atol=0.01, rtol=0)
    torch.testing.assert_close(found.surrogate.labels, y, atol=0.01, rtol=0)
    fresh = us.local_update(model, current, x, y, local)
    assert norm(subtract(found.delta, fresh)) < 0.02 * norm(fresh)


def test_the_surrogate_reproduces_the_update(problem):
    request = problem.request("a", 20)
    found = convert_many(problem.model, [request], settings=WHOLE, **problem.parts)[0]
    again = us.local_update(
        problem.model, request.base, found.surrogate.x, found.surrogate.labels, problem.local
    )
    error = norm(subtract(again, request.delta)) / norm(request.delta)
    assert error == pytest.approx(found.loss, rel=1e-3)
    assert found.loss == min(found.losses) < found.losses[0] / 3


def test_more_than_one_update_helps(problem):
    errors = {}
    for history in (1, 4):
        requests = [problem.request(c, 30, past=(15, 20, 25)) for c in "ab"]
        settings = Inversion(sparsity=0.95, history=history, iterations=100)
        found = convert_many(problem.model, requests, settings=settings, **problem.parts)
        errors[history] = [problem.error(c, f.delta) for c, f in zip("ab", found, strict=True)]
    assert sum(errors[4]) < 0.9 * sum(errors[1])


def test_of_the_past_only_the_newest_are_used(problem):
    settings = Inversion(iterations=4, history=2)
    requests = [problem.request("a", 30, past=past) for past in ((20,), (5, 20), (20, 5))]
    one, two, other = (
        convert_many(problem.model, [r], settings=settings, **problem.parts)[0] for r in requests
    )
    assert one.losses == two.losses != other.losses


def test_only_the_mask_is_looked_at(problem):
    """What lies outside the mask can be anything, and the surrogate is the same."""
    request = problem.request("a", 20)
    names = tuple(request.delta)
    settings = Inversion(iterations=12)
    target = target_of(request.base, request.delta, names, 0.95)
    assert int(target.mask.sum()) == round(0.05 * len(target.delta))
    noise = torch.where(target.mask, 0.0, 1e-4)
    other = type(target)(target.base, target.delta + noise, target.mask)
    start = Surrogate(torch.full((20, 64), 0.5), torch.zeros(20, 10))
    local = settings.local_for(problem.local, 40)
    for t, same in ((other, True), (type(target)(target.base, other.delta, None), False)):
        a, b = (
            solve(
                problem.model, [[t]], [start], local=local, inputs=problem.inputs, settings=settings
            )[0]
            for t in (target, t)
        )
        assert torch.equal(a.surrogate.x, b.surrogate.x) == same


def test_bounds_are_kept_unless_told(problem):
    request = problem.request("a", 20)
    settings = Inversion(sparsity=0, iterations=40, lr=0.5)
    x = convert_many(problem.model, [request], settings=settings, **problem.parts)[0].surrogate.x
    assert float(x.min()) == 0.0
    assert float(x.max()) == 1.0
    free = Inversion(sparsity=0, iterations=40, lr=0.5, bounded=False)
    x = convert_many(problem.model, [request], settings=free, **problem.parts)[0].surrogate.x
    assert float(x.min()) < 0


def test_the_same_seed_gives_the_same_numbers(problem):
    settings = Inversion(sparsity=0, iterations=10)

    def of(seed):
        request = problem.request("a", 20, seed=seed)
        return convert_many(problem.model, [request], settings=settings, **problem.parts)[0]

    before = torch.get_rng_state()
    first, second, other = of(1), of(1), of(2)
    assert_same(first, second, rtol=0, atol=0)
    assert first.losses == second.losses != other.losses
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("history", [1, 2])
def test_several_at_once_are_as_one_by_one(problem, history):
    """Rounding grows with iterations, so few of them; clients differ in all that may differ."""
    settings = Inversion(
        iterations=8, warm_iterations=4, history=history, patience=2, tolerance=0.2
    )
    warm = Surrogate(torch.full((20, 64), 0.4), torch.zeros(20, 10))
    requests = [
        problem.request("a", 20, seed=1, past=(18,)),
        problem.request("b", 5, seed=2, past=(3,)),
        problem.request("c", 30, seed=3),
        problem.request("d", 20, seed=4, past=(1,)),
        problem.request("b", 20, seed=5, warm=warm, past=(9,)),
        problem.request("a", 7, seed=6, past=(2,)),
    ]
    together = convert_many(problem.model, requests, settings=settings, **problem.parts)
    for request, one in zip(requests, together, strict=True):
        (alone,) = convert_many(problem.model, [request], settings=settings, **problem.parts)
        assert_same(alone, one, rtol=1e-3, atol=1e-4)
    assert len({c.iterations for c in together}) > 1
    split = Inversion(
        **{f: getattr(settings, f) for f in settings.__dataclass_fields__ if f != "at_once"},
        at_once=2,
    )
    for a, b in zip(
        together,
        convert_many(problem.model, requests, settings=split, **problem.parts),
        strict=True,
    ):
        assert_same(a, b, rtol=1e-3, atol=1e-4)


def test_a_warm_start_needs_fewer_iterations(problem):
    settings = Inversion(start="grey", warm_iterations=150, good_loss=0.0)

    def fit(*requests):
        return convert_many(problem.model, requests, settings=settings, **problem.parts)

    earlier = fit(problem.request("a", 15), problem.request("b", 15))
    cold = fit(problem.request("a", 20), problem.request("b", 20))
    warm = fit(
        problem.request("a", 20, warm=earlier[0].surrogate),
        problem.request("b", 20, warm=earlier[1].surrogate),
    )
    for before, after in zip(cold, warm, strict=True):
        assert after.losses[0] < before.losses[0] / 5
        reached = next(i for i, loss in enumerate(after.losses) if loss <= before.loss * 1.25)
        assert reached < before.iterations / 2


def test_budgets_are_kept(problem):
    request = problem.request("a", 20)
    few = Inversion(iterations=7, patience=0)
    assert convert_many(problem.model, [request], settings=few, **problem.parts)[0].iterations == 7
    short = Inversion(iterations=100_000, patience=0, max_seconds=0.2)
    found = convert_many(problem.model, [request] * 2, settings=short, **problem.parts)
    assert 0 < found[0].iterations < 100_000


ABSURD = {
    "zero": lambda d: zeros_like(d),
    "not finite": lambda d: {n: torch.full_like(p, torch.nan) for n, p in d.items()},
    "too small": lambda d: scale(d, 1e-12),
    "too large": lambda d: scale(d, 1e12),
}


@pytest.mark.parametrize("reason", sorted(ABSURD))
def test_an_absurd_update_is_an_outcome(problem, reason):
    good, bad = problem.request("a", 20), problem.request("b", 20)
    bad = Request(bad.base, ABSURD[reason](bad.delta), bad.num_examples)
    settings = Inversion(iterations=10)
    first, second = convert_many(problem.model, [bad, good], settings=settings, **problem.parts)
    assert not first.ok
    assert reason in first.reason
    assert first.iterations == 0
    assert first.surrogate is None
    assert all(torch.isfinite(d).all() for d in first.delta.values())
    if reason != "not finite":
        assert all(torch.equal(d, bad.delta[n]) for n, d in first.delta.items())
    assert second.ok, "one client's nonsense must not touch another"


def test_an_update_that_no_data_explains_is_an_outcome(problem):
    request = problem.request("a", 20)
    rng = torch.Generator().manual_seed(0)
    noise = {n: torch.randn(p.shape, generator=rng) for n, p in request.delta.items()}
    found = convert_many(
        problem.model, [Request(request.base, noise, 40)], settings=WHOLE, **problem.parts
    )[0]
    assert not found.ok
    assert "no fit" in found.reason
    assert all(torch.equal(d, noise[n]) for n, d in found.delta.items())


def test_a_loss_that_is_not_finite_is_an_outcome(problem):
    """Training from these weights overflows, whatever the surrogate."""
    request = problem.request("a", 20)
    wild = us.LocalSpec(lr=1e30, epochs=5)
    found = convert(
        problem.model,
        base=request.base,
        current=problem.current,
        delta=request.delta,
        local=wild,
        inputs=problem.inputs,
        num_examples=40,
        settings=WHOLE,
    )
    assert not found.ok
    assert "not finite" in found.reason
    assert found.iterations < 20
    assert all(torch.isfinite(d).all() for d in found.delta.values())


def test_a_wild_estimate_is_an_outcome(problem):
    request = problem.request("a", 20)
    broken = {n: p * 1e30 for n, p in problem.current.items()}
    found = convert_many(
        problem.model,
        [request],
        current=broken,
        local=problem.local,
        inputs=problem.inputs,
        settings=Inversion(iterations=5, max_loss=2.0),
    )[0]
    assert not found.ok
    assert "the estimate is" in found.reason
    assert all(torch.equal(d, request.delta[n]) for n, d in found.delta.items())


def test_bad_past_updates_and_warm_starts_are_left_out(problem):
    request = problem.request("a", 20)
    settings = Inversion(iterations=6, history=3)
    plain = convert_many(problem.model, [request], settings=settings, **problem.parts)[0]
    nan = {n: torch.full_like(p, torch.nan) for n, p in request.delta.items()}
    spoilt = Request(
        request.base,
        request.delta,
        40,
        past=[(request.base, nan), (nan, request.delta), (request.base, zeros_like(nan))],
        warm=Surrogate(torch.full((20, 64), torch.nan), torch.zeros(20, 10)),
    )
    assert_same(
        plain,
        convert_many(problem.model, [spoilt], settings=settings, **problem.parts)[0],
        rtol=0,
        atol=0,
    )


def test_nothing_given_is_changed(problem):
    request = problem.request("a", 20)
    kept = [
        {n: p.clone() for n, p in ps.items()}
        for ps in (request.base, request.delta, problem.current)
    ]
    warm = Surrogate(torch.full((20, 64), 0.4), torch.zeros(20, 10))
    convert_many(
        problem.model,
        [Request(request.base, request.delta, 40, warm=warm)],
        settings=Inversion(warm_iterations=3),
        **problem.parts,
    )
    for before, after in zip(kept, (request.base, request.delta, problem.current), strict=True):
        assert all(torch.equal(before[n], after[n]) for n in before)
    assert bool((warm.x == 0.4).all())
    assert all(p.grad is None for p in problem.model.parameters())


def test_frozen_weights_do_not_change(problem):
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    model[0].weight.requires_grad_(False)
    x, y = problem.data["a"]
    base = problem.weights[0]
    delta = us.local_update(model, base, x, y, problem.local)
    found = convert(
        model,
        base=base,
        current=problem.current,
        delta=delta,
        local=problem.local,
        inputs=problem.inputs,
        num_examples=40,
        settings=WHOLE,
    )
    assert not found.delta["0.weight"].any()
    fresh = us.local_update(model, problem.current, x, y, problem.local)
    assert cosine_distance(found.delta, fresh) < cosine_distance(delta, fresh)


class TakesOneAtATime(nn.Linear):
    """A layer that vmap refuses: its path depends on a value."""

    def forward(self, x):
        return super().forward(x if float(x.detach().sum()) > -1e9 else -x)


def test_a_layer_that_cannot_be_batched_is_done_one_by_one(problem):
    model = nn.Sequential(TakesOneAtATime(64, 32), nn.ReLU(), nn.Linear(32, 10))
    requests = [problem.request(c, 20) for c in "abc"]
    settings = Inversion(iterations=3)
    found = convert_many(model, requests, settings=settings, **problem.parts)
    usual = convert_many(problem.model, requests, settings=settings, **problem.parts)
    for a, b in zip(found, usual, strict=True):
        assert a.losses == pytest.approx(b.losses, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": InputSpec((63,), 10)}, r"inputs of the shape \(63,\)"),
        ({"inputs": InputSpec((64,), 9)}, "9 classes"),
        ({"num_examples": 0}, "`num_examples`"),
        ({"delta": {"0.weight": torch.zeros(2)}}, "`delta` should have the model's parameters"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(problem, change, message):
    request = problem.request("a", 20)
    given = {
        "base": request.base,
        "current": problem.current,
        "delta": request.delta,
        "local": problem.local,
        "inputs": problem.inputs,
        "num_examples": 40,
        **change,
    }
    with pytest.raises(ConfigError, match=message):
        convert(problem.model, **given)


def test_a_model_that_cannot_be_trained_faithfully_is_refused(problem):
    model = nn.Sequential(nn.Linear(64, 32), nn.Dropout(0.5), nn.Linear(32, 10))
    with pytest.raises(ModelError, match="drops at random"):
        convert_many(model, [problem.request("a", 20)], **problem.parts)
