"""The second half of a conversion: training the surrogate, and what it leaves unexplained."""

import pytest
import torch

import unstale as us
from unstale.inversion import (
    Fit,
    Inversion,
    Request,
    Surrogate,
    convert_many,
    estimate_many,
    fit_many,
)
from unstale.inversion.convert import with_residual


def of(*values):
    return {"w": torch.tensor(values)}


def test_the_residual_is_kept_in_the_share_that_lives_on():
    estimate, fitted, sent = of(1.0, 1.0, 0.0), of(2.0, 0.0, 0.0), of(2.0, 0.0, 4.0)
    # <estimate, fitted> / |fitted|^2 = 2 / 4
    found = with_residual(estimate, fitted, sent)
    torch.testing.assert_close(found["w"], torch.tensor([1.0, 1.0, 2.0]))


@pytest.mark.parametrize(
    ("estimate", "share"),
    [(of(2.0, 0.0), 1.0), (of(9.0, 0.0), 1.0), (of(0.0, 3.0), 0.0), (of(-2.0, 0.0), 0.0)],
    ids=["unchanged", "grown", "turned away", "turned round"],
)
def test_the_share_is_between_nothing_and_all(estimate, share):
    found = with_residual(estimate, of(2.0, 0.0), of(2.0, 0.5))
    torch.testing.assert_close(found["w"] - estimate["w"], torch.tensor([0.0, 0.5 * share]))


def test_a_fit_to_nothing_adds_nothing():
    found = with_residual(of(1.0, 2.0), of(0.0, 0.0), of(5.0, 5.0))
    torch.testing.assert_close(found["w"], torch.tensor([1.0, 2.0]))


def test_without_staleness_an_update_comes_out_as_it_came(problem):
    now = len(problem.weights) - 1
    request = problem.request("a", now)
    few = Inversion(iterations=5, max_loss=2.0)  # a poor fit, of which the residual is large
    (found,) = convert_many(problem.model, [request], settings=few, **problem.parts)
    assert found.ok
    assert found.loss > 0.05
    for name, sent in request.delta.items():
        torch.testing.assert_close(found.delta[name], sent, rtol=1e-4, atol=1e-6)


def test_without_the_residual_it_is_the_surrogates_own_training(problem):
    request = problem.request("b", 20)
    plain = Inversion(iterations=10, residual=False, max_loss=2.0)
    (found,) = convert_many(problem.model, [request], settings=plain, **problem.parts)
    recipe = plain.local_for(problem.local, 40)
    own = us.local_update(
        problem.model, problem.current, found.surrogate.x, found.surrogate.labels, recipe
    )
    for name, change in own.items():
        torch.testing.assert_close(found.delta[name], change, rtol=1e-4, atol=1e-6)


def test_fits_made_ahead_give_what_converting_gives(problem):
    requests = [problem.request("a", 20, seed=1), problem.request("d", 25, seed=2)]
    settings = Inversion(iterations=12, patience=0, max_loss=2.0)
    together = convert_many(problem.model, requests, settings=settings, **problem.parts)
    fits = fit_many(
        problem.model, requests, local=problem.local, inputs=problem.inputs, settings=settings
    )
    apart = estimate_many(
        problem.model, requests, fits, current=problem.current, local=problem.local,
        settings=settings,
    )  # fmt: skip
    for a, b in zip(together, apart, strict=True):
        assert a.losses == b.losses
        for name in a.delta:
            assert torch.equal(a.delta[name], b.delta[name])


def test_a_failed_fit_keeps_the_update_and_its_reason(problem):
    request = problem.request("a", 20)
    failed = Fit(None, float("nan"), (0.5, 0.4), 1.0, reason="no fit")
    (found,) = estimate_many(
        problem.model, [request], [failed], current=problem.current, local=problem.local,
        settings=Inversion(),
    )  # fmt: skip
    assert (found.ok, found.reason, found.iterations) == (False, "no fit", 2)
    assert all(torch.equal(found.delta[n], d) for n, d in request.delta.items())


class TestRestart:
    """A surrogate that leads nowhere is given up for a cold start."""

    # Saturated inputs and sure, wrong labels: the gradient has almost nothing to offer.
    TRAP = Surrogate(torch.ones(20, 64), torch.eye(10)[torch.arange(20) % 3] * 40)

    def fit(self, problem, **settings):
        request = problem.request("a", 20, warm=self.TRAP)
        (found,) = fit_many(
            problem.model, [Request(request.base, request.delta, 40, warm=self.TRAP)],
            local=problem.local, inputs=problem.inputs,
            settings=Inversion(sparsity=0, warm_iterations=5, max_loss=9.0, **settings),
        )  # fmt: skip
        return found

    def test_a_trapped_client_is_begun_anew_and_told_so(self, problem):
        trapped = self.fit(problem, restart_loss=0.0)
        freed = self.fit(problem, restart_loss=0.2)
        assert trapped.warm
        assert trapped.loss > 0.2
        assert not freed.warm
        assert freed.loss < trapped.loss / 2
        # The cost of both is told.
        assert freed.losses[:5] == trapped.losses
        assert len(freed.losses) > 5

    def test_a_good_one_is_kept(self, problem):
        assert len(self.fit(problem, restart_loss=9.0).losses) == 5

    def test_where_the_cold_start_is_no_better_the_warm_one_stays(self, problem):
        found = self.fit(problem, restart_loss=0.2, iterations=1, patience=0, noise=0.0)
        worse = self.fit(problem, restart_loss=0.0, patience=0, noise=0.0)
        assert found.loss == min(worse.loss, found.losses[-1])

    def test_time_that_is_used_up_allows_no_second_try(self, problem):
        found = self.fit(problem, restart_loss=0.2, max_seconds=1e-9)
        assert found.warm
        assert len(found.losses) == 1
