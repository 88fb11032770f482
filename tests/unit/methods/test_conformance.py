"""One list of promises, held by every registered method and by a chain of several.

A method that is registered is covered by its name; nothing needs to be added here. What
methods add for absent clients is in `test_conformance_absent.py`.
"""

import copy
import itertools

import pytest
import torch
from conforming import (
    CASES,
    INPUTS,
    NOW,
    World,
    model_of,
    noise,
    parts,
    same,
    same_state,
    timeless,
)

import unstale as us
from unstale.methods import METHODS
from unstale.params import clone, flatten
from unstale.server.step import initial_state


@pytest.fixture(params=list(CASES))
def method(request):
    return CASES[request.param]


def test_a_fresh_update_comes_out_unchanged(method):
    world = World(method)
    fresh = [world.update("a", NOW), world.update("b", NOW)]
    updates = world.step(fresh).report.updates
    assert [u.client_id for u in updates] == ["a", "b"]
    for found, sent in zip(updates, fresh, strict=True):
        assert (found.base_version, found.weight) == (NOW, 1.0)
        assert found.num_examples == sent.num_examples
        assert same(found.delta, sent.delta)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_names_shapes_and_dtypes_are_kept(method, dtype):
    world = World(method, dtype)
    result = world.step(world.arrivals())
    for params in (result.state.params, *(u.delta for u in result.report.updates)):
        assert list(params) == ["weight", "bias"]
        assert [(p.shape, p.dtype) for p in params.values()] == [((2, 3), dtype), ((2,), dtype)]


def test_inputs_are_not_changed(method):
    world = World(method)
    arrivals = world.arrivals()
    deltas = [clone(u.delta) for u in arrivals]
    past = {v: clone(p) for v, p in world.past.items()}
    state = copy.deepcopy((world.state.compensator, world.state.aggregator))
    weights = clone(dict(world.model.named_parameters()))
    world.step(arrivals)
    assert all(same(u.delta, d) for u, d in zip(arrivals, deltas, strict=True))
    assert all(same(world.past[v], past[v]) for v in past)
    assert same_state([world.state.compensator, world.state.aggregator], list(state))
    assert same(dict(world.model.named_parameters()), weights)


def test_the_same_generator_gives_the_same_result_in_any_order_of_arrival(method):
    world = World(method)
    first = world.step(world.arrivals())
    assert bool(torch.isfinite(flatten(first.state.params)).all())
    for order in itertools.permutations(world.arrivals()):
        again = world.step(list(order))
        assert same(again.state.params, first.state.params)
        assert same_state(again.state.compensator, first.state.compensator)
        assert same_state(again.state.aggregator, first.state.aggregator)
        assert timeless(again.report.notes) == timeless(first.report.notes)


def test_without_staleness_it_is_fedavg(method):
    world = World(method, torch.float64)
    a, b, c = (world.update(client, NOW) for client in "abc")
    found = world.step([a, b, c], clients=dict.fromkeys("abc", 0.0)).state.params
    for name, start in world.past[NOW].items():  # of 5, 10 and 25 examples
        wanted = start + (a.delta[name] + 2 * b.delta[name] + 5 * c.delta[name]) / 8
        assert torch.allclose(found[name], wanted, rtol=1e-14, atol=1e-14)


def test_a_round_without_updates_keeps_the_weights_and_makes_a_version(method):
    world = World(method)
    state = world.state
    for version in (NOW + 1, NOW + 2):
        result = world.step([], state=state)
        state = result.state
        assert (state.version, result.report.version) == (version, version)
        assert same(state.params, world.past[NOW])
        assert not result.report.changed


def test_an_update_whose_base_is_gone_falls_back_as_stated(method):
    world = World(method)
    update = world.update("c", 2)
    result = world.step([update], past={NOW: world.past[NOW]})
    fallbacks = [note for note in result.report.notes if note.kind == "fallback"]
    if fallbacks:
        (note,) = fallbacks
        assert (note.client_id, note.base_version) == ("c", 2)
        assert note.detail["did"] in ("keep", "drop")
        assert note.detail["reason"]
        kept = [u for u in result.report.updates if u.client_id == "c"]
        assert len(kept) == (note.detail["did"] == "keep")
        assert all(same(u.delta, update.delta) for u in kept)
    else:  # it needs no base: the past makes no difference
        assert same(result.state.params, world.step([update]).state.params)


@pytest.mark.parametrize("size", [1e30, 3e38])
def test_huge_finite_updates_never_make_the_model_infinite(method, size):
    world = World(method)
    huge = world.arrivals(size=1.0)
    for update in huge:
        for p in update.delta.values():
            p.copy_(p.sign() * size)
    state = world.state
    for _ in range(3):
        state = world.step(huge, state=us.ServerState(NOW, *parts(state))).state
        assert bool(torch.isfinite(flatten(state.params)).all())
    assert state.version == NOW + 1


def test_the_state_survives_save_and_load_at_any_moment(method, tmp_path):
    """Saved and loaded after every round, amid open tickets and unstepped updates."""
    ends = []
    for disturbed in (False, True):
        model = model_of()
        history = us.HistorySpec(memory_bytes=100)
        server = us.Server(model, method=method, seed=3, history=history, inputs=INPUTS)
        for client in ("a", "b", "slow", "silent"):
            server.register(client, latency=7 if client == "silent" else None)
        told, lines = {}, []
        for round_ in range(6):
            for client in ("a", "b", "slow")[: 3 if round_ in (0, 2) else 2]:
                version, _ = server.check_out(client)
                told.setdefault(client, []).append(version)
            arriving = ["a", "b"] + (["slow"] if round_ >= 3 and told["slow"] else [])
            for client in arriving:
                base = told[client].pop(0)
                delta = noise(model, client, base)
                update = us.Update(client, base, delta, 10 + base)
                assert server.submit(update).accepted
                assert not server.submit(update).accepted
            if disturbed:
                server.save(tmp_path)
                server = us.Server.load(tmp_path, model)
            line = server.step().to_json()
            lines.append({k: v for k, v in line.items() if k != "seconds"})
        ends.append((server.params, server.version, server.outstanding, lines, server.to_tree()[0]))
    whole, pieces = ends
    assert same(whole[0], pieces[0])
    assert whole[1:4] == pieces[1:4]
    assert same_state(whole[4]["compensator"], pieces[4]["compensator"])
    assert same_state(whole[4]["aggregator"], pieces[4]["aggregator"])
    assert max(line["staleness"]["max"] for line in whole[3]) == 3


def test_every_registered_method_is_on_the_list():
    assert set(METHODS) <= set(CASES)
    assert initial_state({}, CASES["chain"]).compensator == {"parts": [{}, {}, {}]}
