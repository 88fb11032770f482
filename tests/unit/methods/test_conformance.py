"""One list of promises, held by every registered method and by a chain of several.

A method that is registered is covered by its name; nothing needs to be added here.
"""

import copy
import itertools
import json

import pytest
import torch
from torch import nn

import unstale as us
from unstale.methods import METHODS
from unstale.params import clone, flatten
from unstale.seeding import generator
from unstale.server.step import initial_state
from unstale.server.tree import take_tensors
from unstale.updates import TrainingTools

FEW = {"iterations": 3, "warm_iterations": 2, "max_loss": 1e9, "sparsity": 0}
CHEAP = {"inversion": FEW, "max_growth": 0}
OFF = {"enabled": False}
INPUTS = us.InputSpec(shape=(3,), classes=2)
CASES = {name: us.method(name) for name in METHODS} | {
    "chain": us.Method(us.chain(us.Drop(5), us.FirstOrder(), us.PolynomialWeight()), us.FedAvg()),
    "reversed tiers": us.method("asyn_tiers", bounds=(0, 2), weighing="reversed"),
    # Few iterations, and any fit will do: here updates are noise, which no data explains.
    "convert": us.method("convert", **CHEAP),
    "convert all": us.method(
        "convert", uniqueness=OFF, switching=OFF, inversion={**FEW, "history": 3}, max_growth=0
    ),
    "unique first": us.Method(us.only_unique(us.switch_back(us.FirstOrder()))),
    "unique by the nearest": us.Method(us.only_unique(us.FirstOrder(), rule="nearest")),
    "convert by the nearest": us.method("convert", uniqueness={"rule": "nearest"}, **CHEAP),
}
NOW = 6


@pytest.fixture(params=list(CASES))
def method(request):
    return CASES[request.param]


def model_of(dtype=torch.float32):
    model = nn.Linear(3, 2).to(dtype)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator(0, "weights")))
    return model


def noise(model, *names, size=0.5):
    rng = generator(1, *names)
    return {
        n: size * torch.randn(p.shape, generator=rng, dtype=p.dtype)
        for n, p in model.named_parameters()
    }


class World:
    """Versions 0 to 6 of a small model, and a step of a method at version 6."""

    def __init__(self, method, dtype=torch.float32):
        self.method, self.model = method, model_of(dtype)
        self.past = {v: noise(self.model, "past", v) for v in range(NOW + 1)}
        self.state = us.ServerState(
            NOW, self.past[NOW], method.compensator.init(), method.aggregator.init()
        )

    def update(self, client, base, size=0.5):
        examples = {"a": 5, "b": 10, "c": 25}[client]
        return us.Update(client, base, noise(self.model, client, base, size=size), examples)

    def step(self, arrivals, past=None, state=None):
        return us.step(
            self.state if state is None else state,
            arrivals,
            method=self.method,
            local=us.LocalSpec(),
            history=(self.past if past is None else past).get,
            rng=generator(0, "step"),
            kept_versions=self.past if past is None else past,
            tools=TrainingTools(self.model, INPUTS),
        )

    def arrivals(self, size=0.5):
        return [self.update(c, b, size) for c, b in [("a", 6), ("b", 5), ("c", 2), ("b", 3)]]


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


def image(state):
    """A state of any shape as text and tensors, to compare exactly."""
    tensors = {}
    return json.dumps(take_tensors(state, tensors)), tensors


def timeless(notes):
    """Notes without the seconds that something took."""
    return [
        (n.kind, n.client_id, n.base_version, {k: v for k, v in n.detail.items() if k != "seconds"})
        for n in notes
    ]


def same_state(one, other):
    return image(one)[0] == image(other)[0] and same(image(one)[1], image(other)[1])


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
    found = world.step([a, b, c]).state.params
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


def parts(state):
    return state.params, state.compensator, state.aggregator


def test_the_state_survives_save_and_load_at_any_moment(method, tmp_path):
    """Saved and loaded after every round, amid open tickets and unstepped updates."""
    ends = []
    for disturbed in (False, True):
        model = model_of()
        history = us.HistorySpec(memory_bytes=100)
        server = us.Server(model, method=method, seed=3, history=history, inputs=INPUTS)
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
