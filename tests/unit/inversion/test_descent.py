"""How far an iteration moves, and when a fit is left as it is."""

import dataclasses

import pytest
import torch

from unstale.inversion import Inversion, convert_many
from unstale.inversion.descent import Descent, initial_state
from unstale.inversion.surrogate import grey
from unstale.inversion.target import target_of
from unstale.inversion.unroll import one_by_one
from unstale.seeding import generator
from unstale.training.model_checks import trainable_names


def first_move(problem, **changes) -> tuple[torch.Tensor, float]:
    """Return what one iteration moves, and the loss from which it does."""
    settings = Inversion(sparsity=0, bounded=False, iterations=5, **changes)
    request = problem.request("a", 20)
    target = target_of(request.base, request.delta, trainable_names(problem.model), 0.0)
    start = grey(problem.inputs, 20, 0.05, generator(0, "start"))
    local = settings.local_for(problem.local, 40)
    state = initial_state(
        problem.model,
        [[target]],
        [start],
        local=local,
        inputs=problem.inputs,
        settings=settings,
        warm=False,
    )
    before = state.rows.clone()
    Descent(one_by_one(problem.model, local), problem.inputs, settings, 20)(state)
    return state.rows - before, float(state.losses[0, 0])


def test_steps_shrink_with_the_loss(problem):
    whole, loss = first_move(problem, shrink_steps_below=0.0)
    assert whole.abs().max() > 0
    above, _ = first_move(problem, shrink_steps_below=loss / 2)
    assert torch.equal(above, whole)
    below, _ = first_move(problem, shrink_steps_below=4 * loss)
    torch.testing.assert_close(below, whole / 4)


def test_the_bound_counts_for_each_term(problem):
    whole, loss = first_move(problem, objective="l2+l1", shrink_steps_below=0.0)
    below, _ = first_move(problem, objective="l2+l1", shrink_steps_below=loss)
    torch.testing.assert_close(below, whole / 2)


def of_three_updates(problem, **changes):
    """Return a descent and its state for one client with three updates."""
    settings = Inversion(history=3, iterations=9, **changes)
    request = problem.request("a", 20)
    names = trainable_names(problem.model)
    sent = [(request.base, {n: d * (1 + k) for n, d in request.delta.items()}) for k in range(3)]
    targets = [target_of(base, delta, names, 0.0) for base, delta in sent]
    start = grey(problem.inputs, 20, 0.05, generator(0, "start"))
    local = settings.local_for(problem.local, 40)
    state = initial_state(
        problem.model,
        [targets],
        [start],
        local=local,
        inputs=problem.inputs,
        settings=settings,
        warm=False,
    )
    return Descent(one_by_one(problem.model, local), problem.inputs, settings, 20), state


def test_updates_are_looked_at_in_turn(problem):
    descent, state = of_three_updates(problem, updates_per_iteration=2)
    turns = []
    for _ in range(4):
        turns.append(descent.in_turn(state).tolist())
        descent(state)
    assert turns == [[0, 1], [2, 0], [1, 2], [0, 1]]
    assert not state.latest.isinf().any()
    every, _ = of_three_updates(problem, updates_per_iteration=3)
    assert every.in_turn(state) is None


def test_the_loss_is_the_mean_of_what_each_update_had_last(problem):
    descent, state = of_three_updates(problem, updates_per_iteration=1, shrink_steps_below=0.0)
    state.rate.zero_()  # nothing moves, so each turn sees the same rows
    every, still = of_three_updates(problem, updates_per_iteration=3)
    every(still)
    for _ in range(3):
        descent(state)
    torch.testing.assert_close(state.losses[2], still.losses[0])
    torch.testing.assert_close(state.losses[0], state.latest[:, 0])


def test_the_gradients_of_all_turns_add_up_to_that_of_all_updates(problem):
    descent, state = of_three_updates(problem, updates_per_iteration=1)
    every, _ = of_three_updates(problem, updates_per_iteration=3)
    _, whole = every.gradient(state)
    parts = []
    for _ in range(3):
        parts.append(descent.gradient(state)[1])
        state.iteration.add_(1)
    torch.testing.assert_close(sum(parts) / 3, whole)


def test_the_best_is_not_chosen_before_every_update_had_its_turn(problem):
    descent, state = of_three_updates(problem, updates_per_iteration=1)
    for _ in range(3):
        rows = state.rows.clone()
        descent(state)
        assert torch.equal(state.best, rows)


@pytest.mark.parametrize(("good_loss", "iterations"), [(0.0, 30), (0.9, 7)])
def test_a_good_warm_fit_is_left_as_it_is(problem, good_loss, iterations):
    """From `warm_min_iterations` on, also between looks at plateaus; first fits are not cut."""
    settings = Inversion(
        sparsity=0,
        iterations=35,
        warm_iterations=30,
        warm_min_iterations=7,
        good_loss=good_loss,
        tolerance=0,
    )
    (cold,) = convert_many(
        problem.model, [problem.request("a", 10)], settings=settings, **problem.parts
    )
    assert cold.iterations == 35
    warm = problem.request("a", 20, warm=cold.surrogate)
    (found,) = convert_many(problem.model, [warm], settings=settings, **problem.parts)
    assert found.warm
    assert found.iterations == iterations


def test_a_poor_warm_fit_goes_on_beside_a_good_one(problem):
    settings = Inversion(
        sparsity=0, warm_iterations=30, warm_min_iterations=5, tolerance=0, restart_loss=0,
        good_loss=0.05,
    )  # fmt: skip
    first = convert_many(
        problem.model, [problem.request(c, 18) for c in "ab"], settings=settings, **problem.parts
    )
    foreign = first[1].surrogate  # of another class: a poor place to begin
    together = [
        problem.request("a", 20, warm=first[0].surrogate),
        problem.request("a", 20, warm=foreign),
    ]
    good, poor = convert_many(problem.model, together, settings=settings, **problem.parts)
    assert good.iterations < poor.iterations == 30
    lax = dataclasses.replace(settings, good_loss=2.0)
    both = convert_many(problem.model, together, settings=lax, **problem.parts)
    assert [one.iterations for one in both] == [5, 5]
