"""Comparators as compensators: the estimate, what guards it, and what is remembered."""

import dataclasses

import pytest
import torch
from late_world import INPUTS, LOCAL, samples
from standing import same

import unstale as us
from unstale.check import Client, Trial, run_trial
from unstale.errors import ConfigError
from unstale.experiment.method_config import parse_methods
from unstale.inversion.convert import with_residual
from unstale.inversion.recipe import surrogate_recipe
from unstale.methods import DataFreeGenerator, DreamedInputs, SurrogateData
from unstale.methods.description import describe_method, rebuild_method
from unstale.updates import TrainingTools

QUICK = {
    "generator": DataFreeGenerator(iterations=8, hidden=8, noise=4),
    "dreams": DreamedInputs(iterations=8),
}


@pytest.fixture(params=list(QUICK))
def comparator(request):
    return QUICK[request.param]


def changed(comparator, **settings):
    return dataclasses.replace(comparator, surrogate=SurrogateData(**settings))


def applied(world, comparator, *updates, now=8, state=None, **changes):
    state = comparator.init() if state is None else state
    return comparator.apply(list(updates), state, world.view(now, **changes))


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("batch_size", [None, 4])
def test_the_estimate_is_what_the_samples_change_by_the_clients_recipe(
    world, comparator, residual, batch_size
):
    comparator = changed(comparator, residual=residual, max_growth=0)
    local = dataclasses.replace(LOCAL, steps=None, epochs=9, batch_size=batch_size)
    update = world.update("s", 3)
    outcome = applied(world, comparator, update, local=local)
    samples = comparator.surrogates(outcome.state)["s"]
    assert samples.labels.argmax(1).tolist() == [2] * 16  # the only class of `s`
    assert torch.equal(samples.labels.amax(1), torch.ones(16))
    recipe = surrogate_recipe(local, 12, 16)
    assert recipe.steps == local.num_steps(12)  # not shortened
    now, then = (
        us.local_update(world.model, world.weights[v], samples.x, samples.labels, recipe)
        for v in (8, 3)
    )
    wanted = with_residual(now, then, update.delta) if residual else now
    (found,) = outcome.updates
    assert all(torch.allclose(found.delta[n], wanted[n], atol=1e-6) for n in wanted)
    assert (found.base_version, found.num_examples) == (3, 12)
    (note,) = outcome.notes
    assert (note.kind, note.detail["start"], note.detail["iterations"]) == ("converted", "cold", 8)


def test_soft_labels_are_the_answers_of_the_clients_model(world, comparator):
    comparator = changed(comparator, soft_labels=True)
    update = world.update("s", 3)
    samples = comparator.surrogates(applied(world, comparator, update).state)["s"]
    own = {n: p + update.delta[n] for n, p in world.weights[3].items()}
    answers = torch.func.functional_call(world.model, own, (samples.x,)).softmax(-1)
    assert torch.allclose(samples.labels, answers, atol=1e-6)


def test_known_labels_are_used(world, comparator):
    comparator = changed(comparator, shares={"s": (1, 3, 0)})
    samples = comparator.surrogates(applied(world, comparator, world.update("s", 3)).state)["s"]
    assert torch.bincount(samples.labels.argmax(1), minlength=3).tolist() == [4, 12, 0]


def test_the_next_update_starts_from_the_last_result(world, comparator):
    first = applied(world, comparator, world.update("s", 3))
    warm = applied(world, comparator, world.update("s", 5), state=first.state)
    cold = applied(world, comparator, world.update("s", 5))
    assert [n.detail["start"] for n in (*warm.notes, *cold.notes)] == ["warm", "cold"]
    assert warm.notes[0].detail["loss"] < cold.notes[0].detail["loss"]
    assert warm.state["clients"]["s"]["count"] == 2
    always = changed(comparator, warm_start=False)
    again = applied(world, always, world.update("s", 5), state=first.state)
    assert same(again.updates[0].delta, cold.updates[0].delta)


def test_clients_do_not_affect_each_other(world, comparator):
    s, t = world.update("s", 3), world.update("t", 4)
    both = applied(world, comparator, s, t)
    for i, update in enumerate((s, t)):
        alone = applied(world, comparator, update)
        found = both.updates[i].delta
        assert all(torch.allclose(alone.updates[0].delta[n], found[n], atol=1e-6) for n in found)


def test_an_older_update_does_not_replace_the_samples(world, comparator):
    newer = applied(world, comparator, world.update("s", 5))
    after = applied(world, comparator, world.update("s", 2), state=newer.state)
    before, kept = newer.state["clients"]["s"], after.state["clients"]["s"]
    assert torch.equal(kept["x"], before["x"])
    if "weights" in before:
        assert same(kept["weights"], before["weights"])
    assert (kept["version"], kept["count"]) == (5, 2)


def test_the_number_of_remembered_clients_is_bounded(world, comparator):
    comparator = changed(comparator, max_clients=1)
    first = applied(world, comparator, world.update("s", 3), now=7)
    second = applied(world, comparator, world.update("t", 3), state=first.state)
    assert list(comparator.surrogates(second.state)) == ["t"]


def test_an_estimate_that_is_too_large_is_not_used(world, comparator):
    comparator = changed(comparator, max_growth=1e-3)
    update = world.update("s", 3)
    outcome = applied(world, comparator, update)
    assert outcome.updates[0] is update
    assert outcome.notes[0].kind == "fallback"
    assert "times as large" in outcome.notes[0].detail["reason"]
    assert outcome.state["clients"] == {}


def test_an_absurd_update_is_kept_and_the_samples_of_before_stay(world, comparator):
    first = applied(world, comparator, world.update("s", 3))
    zero = {n: torch.zeros_like(p) for n, p in world.weights[0].items()}
    outcome = applied(world, comparator, us.Update("s", 5, zero, 12), state=first.state)
    assert outcome.notes[0].detail["reason"] == "the update is zero"
    assert comparator.surrogates(outcome.state).keys() == {"s"}


@pytest.mark.parametrize("fallback", ["keep", "drop"])
def test_without_the_base_version_it_falls_back(world, comparator, fallback):
    comparator = dataclasses.replace(comparator, fallback=fallback)
    outcome = applied(world, comparator, world.update("s", 3), history={}.get)
    assert len(outcome.updates) == (fallback == "keep")
    assert outcome.notes[0].detail["did"] == fallback


def test_without_model_or_inputs_it_says_what_is_missing(world, comparator):
    for tools, says in (({"model": None}, "the model"), ({"inputs": None}, "shape and bounds")):
        with pytest.raises(ConfigError, match=says):
            applied(world, comparator, world.update("s", 3), **tools)


def test_it_runs_in_a_trial_beside_others(world):
    """On data of its own a comparator is measured as any compensator is."""
    clients = [Client(*samples(label, "trial", label)) for label in (0, 1, 2, 2)]
    found = run_trial(
        world.model,
        clients,
        Trial((2,), staleness=2, begin=1, arrivals=2, every=1),
        {"first_order": us.FirstOrder(), **QUICK},
        local=LOCAL,
        inputs=INPUTS,
        start=world.weights[0],
    )
    assert [(one.label, one.arrival) for one in found] == [
        (label, arrival) for arrival in (0, 1) for label in ("first_order", *QUICK)
    ]
    for one in found:
        assert one.kinds == (("converted",) if one.label in QUICK else ("compensated",))
        assert 0 < one.used.cosine < 2
        assert one.used.l1 > 0


def test_shares_of_classes_come_from_an_experiment_file_and_through_a_checkpoint():
    table = {"name": "dreams", "surrogate": {"shares": {"c07": [0, 1, 3]}}}
    (config,) = parse_methods([table])
    method = config.build()
    assert method.compensator.surrogate.shares == {"c07": (0.0, 1.0, 3.0)}
    assert rebuild_method(describe_method(method)) == method
    with pytest.raises(ConfigError, match=r"shares\.c07"):
        parse_methods([{"name": "dreams", "surrogate": {"shares": {"c07": ["a"]}}}])


def test_a_background_leaves_them_to_the_step(world, comparator):
    update = world.update("s", 3)
    view = dataclasses.replace(world.view(8), tools=TrainingTools(world.model, INPUTS))
    assert comparator.fit_job(update, comparator.init(), view) is None
