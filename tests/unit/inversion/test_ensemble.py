"""Ensembles: several surrogates of one client, fitted and trained alone, and averaged."""

import dataclasses
import math

import pytest
import torch

import unstale as us
from unstale.errors import ConfigError
from unstale.inversion import (
    Fit,
    Inversion,
    Surrogate,
    SurrogateTraining,
    convert_many,
    estimate_with,
    fit_many,
)
from unstale.inversion.convert import with_residual
from unstale.inversion.ensemble import joined, members_of, requests_of

TWO = Inversion(iterations=12, warm_iterations=6, patience=0, ensemble=2, max_loss=2.0)
ONE = dataclasses.replace(TWO, ensemble=1)


def surrogate(samples, value=0.0):
    return Surrogate(torch.full((samples, 3), value), torch.full((samples, 4), value))


def fit(problem, requests, settings):
    return fit_many(
        problem.model, requests, local=problem.local, inputs=problem.inputs, settings=settings
    )


def test_each_member_is_fitted_as_alone(problem):
    request = problem.request("a", 20, past=[15], seed=7)
    (both,) = fit(problem, [request], TWO)
    first, second = fit(problem, requests_of(request, 2), ONE)
    assert torch.equal(both.surrogate.x, torch.cat([first.surrogate.x, second.surrogate.x]))
    assert both.loss == pytest.approx((first.loss + second.loss) / 2)
    assert not torch.equal(first.surrogate.x, second.surrogate.x)
    (plain,) = fit(problem, [request], ONE)
    assert torch.equal(plain.surrogate.x, first.surrogate.x)


def test_the_estimate_is_the_mean_of_the_members_with_the_residual_of_their_mean(problem):
    request = problem.request("b", 20, seed=3)
    (found,) = convert_many(problem.model, [request], settings=TWO, **problem.parts)
    recipe = TWO.local_for(problem.local, request.num_examples)

    def mean_from(weights):
        own = [
            us.local_update(problem.model, weights, member.x, member.labels, recipe)
            for member in members_of(found.surrogate, 2)
        ]
        return {n: (own[0][n] + own[1][n]) / 2 for n in own[0]}

    wanted = with_residual(mean_from(problem.current), mean_from(request.base), request.delta)
    for name, change in wanted.items():
        torch.testing.assert_close(found.delta[name], change, rtol=1e-4, atol=1e-6)


def test_a_warm_fit_improves_each_member_apart(problem):
    (before,) = fit(problem, [problem.request("a", 10)], TWO)
    again = problem.request("a", 20, warm=before.surrogate)
    (both,) = fit(problem, [again], TWO)
    assert both.warm
    apart = fit(problem, requests_of(again, 2), ONE)
    assert torch.equal(both.surrogate.x, torch.cat([f.surrogate.x for f in apart]))
    for now, was in zip(
        members_of(both.surrogate, 2), members_of(before.surrogate, 2), strict=True
    ):
        assert (now.x - was.x).abs().mean() < 0.5 * (was.x - was.x.mean()).abs().mean()


def test_clients_do_not_depend_on_each_other(problem):
    requests = [problem.request("a", 20, seed=1), problem.request("d", 25, seed=2)]
    together = fit(problem, requests, TWO)
    for request, found in zip(requests, together, strict=True):
        (alone,) = fit(problem, [request], TWO)
        torch.testing.assert_close(alone.surrogate.x, found.surrogate.x, rtol=1e-3, atol=1e-4)


def test_other_trainings_are_averaged_too(problem):
    (both,) = fit(problem, [problem.request("a", 20)], TWO)
    recipe = TWO.local_for(problem.local, 40)
    each = members_of(both.surrogate, 2)
    trainings = [
        SurrogateTraining(problem.current, both.surrogate, recipe, ensemble=2),
        *(SurrogateTraining(problem.current, member, recipe) for member in each),
    ]
    _, (mean, first, second) = estimate_with(
        problem.model, [], [], trainings, current=problem.current, local=problem.local, settings=TWO
    )
    for name in mean:
        torch.testing.assert_close(mean[name], (first[name] + second[name]) / 2)


def test_more_members_mean_a_smaller_error(problem):
    """Each member's error is partly its own: the mean of four is nearer than they are."""
    request = problem.request("c", 10, past=[0, 5], seed=4)
    four = Inversion(iterations=60, ensemble=4, residual=False)
    (mean,) = convert_many(problem.model, [request], settings=four, **problem.parts)
    each = convert_many(
        problem.model, requests_of(request, 4), settings=dataclasses.replace(four, ensemble=1),
        **problem.parts,
    )  # fmt: skip
    errors = [problem.error("c", one.delta) for one in each]
    assert problem.error("c", mean.delta) < 0.97 * sum(errors) / 4


def test_the_best_member_takes_the_place_of_a_failed_one():
    failed = Fit(None, math.nan, (0.9,), 1.0, reason="no fit")
    poor, good = Fit(surrogate(2, 1.0), 0.4, (0.4,), 1.0), Fit(surrogate(2, 2.0), 0.1, (0.1,), 1.0)
    found = joined([failed, poor, good])
    assert found.ok
    assert found.surrogate.x[:, 0].tolist() == [2.0, 2.0, 1.0, 1.0, 2.0, 2.0]
    assert found.loss == pytest.approx(0.25)
    assert found.seconds == 3.0


def test_an_ensemble_fails_only_if_all_members_do():
    failed = Fit(None, math.nan, (0.9,), 1.0, reason="no fit")
    found = joined([failed, failed])
    assert not found.ok
    assert (found.reason, found.seconds) == ("no fit", 2.0)


def test_loss_curves_of_different_length_go_on_at_their_end():
    fits = [Fit(surrogate(1), 0.2, (0.8, 0.2), 0.0), Fit(surrogate(1), 0.4, (0.6, 0.5, 0.4), 0.0)]
    assert joined(fits).losses == pytest.approx((0.7, 0.35, 0.3))


def test_what_was_kept_under_other_settings_is_divided_as_far_as_it_goes():
    assert [len(m) for m in members_of(surrogate(5), 2)] == [3, 2]
    assert [len(m) for m in members_of(surrogate(2), 4)] == [1, 1]


def test_a_member_without_a_part_of_the_last_surrogate_begins_anew(problem):
    request = dataclasses.replace(problem.request("a", 20), warm=surrogate(1))
    warm = [r.warm is not None for r in requests_of(request, 2)]
    assert warm == [True, False]


def test_their_number_is_checked():
    with pytest.raises(ConfigError, match="`ensemble` should be a positive integer"):
        Inversion(ensemble=0)
