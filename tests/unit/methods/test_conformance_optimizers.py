"""What every method still promises when a server optimizer moves the weights.

The optimizer acts after compensation and aggregation: what it is given is what the plain one
would have added, whatever the method.
"""

import copy

import pytest
import torch
from conforming import CASES, INPUTS, NOW, World, model_of, noise, parts, same, same_state

import unstale as us
from unstale.errors import ConfigError
from unstale.methods.base import makes_model
from unstale.params import flatten, subtract

MADE = {name: m for name, m in CASES.items() if makes_model(m.aggregator)}
MOVED = {name: m for name, m in CASES.items() if name not in MADE}
ADAM = us.FedAdam(lr=0.05)


@pytest.fixture(params=list(MOVED))
def method(request):
    return MOVED[request.param]


def test_the_optimizer_gets_what_would_have_been_added(method):
    """And the method nothing of the optimizer: updates and memory are as without it."""
    plain, moved = World(method), World(method, optimizer=ADAM)
    without, with_it = plain.step(plain.arrivals()), moved.step(moved.arrivals())
    start = plain.past[NOW]
    change = subtract(without.state.params, start)
    wanted = ADAM.move(start, change, ADAM.init())
    for name, p in wanted.params.items():  # the change is off by a rounding of the weights
        torch.testing.assert_close(with_it.state.params[name], p, rtol=1e-4, atol=1e-4)
    assert same_state(with_it.state.compensator, without.state.compensator)
    assert same_state(with_it.state.aggregator, without.state.aggregator)
    for one, other in zip(with_it.report.updates, without.report.updates, strict=True):
        assert one.key == other.key
        assert same(one.delta, other.delta)


def test_the_step_is_pure_and_the_order_of_arrival_does_not_matter(method):
    world = World(method, optimizer=ADAM)
    first = world.step(world.arrivals()).state
    kept = copy.deepcopy(first.optimizer)
    again = us.ServerState(NOW, *parts(first), first.optimizer)
    one = world.step(world.arrivals(), state=again).state
    other = world.step(world.arrivals()[::-1], state=again).state
    assert same(one.params, other.params)
    assert same_state(one.optimizer, other.optimizer)
    assert same_state(first.optimizer, kept)
    assert not same_state(one.optimizer, kept)


def test_a_round_without_updates_moves_nothing(method):
    world = World(method, optimizer=us.FedAvgM())
    moving = world.step(world.arrivals()).state
    state = us.ServerState(NOW, *parts(moving), moving.optimizer)
    result = world.step([], state=state)
    assert result.state.version == NOW + 1
    assert not result.report.changed
    assert same(result.state.params, state.params)
    assert same_state(result.state.optimizer, state.optimizer)


@pytest.mark.parametrize("size", [1e30, 3e38])
def test_huge_updates_leave_weights_and_moments_finite(method, size):
    world = World(method, optimizer=us.FedYogi())
    huge = world.arrivals(size=1.0)
    for update in huge:
        for p in update.delta.values():
            p.copy_(p.sign() * size)
    state = world.state
    for _ in range(2):
        before = us.ServerState(NOW, *parts(state), state.optimizer)
        state = world.step(huge, state=before).state
        assert bool(torch.isfinite(flatten(state.params)).all())
        for moment in state.optimizer.values():
            assert bool(torch.isfinite(flatten(moment)).all())


def test_saved_and_loaded_after_every_round_to_the_bit(method, tmp_path):
    ends = []
    for disturbed in (False, True):
        model = model_of()
        server = us.Server(model, method, seed=3, inputs=INPUTS, optimizer=ADAM)
        for client in ("a", "slow"):
            server.register(client)
        server.check_out("slow")
        for round_ in range(4):
            version, _ = server.check_out("a")
            sent = [("a", version)] + ([("slow", 0)] if round_ == 2 else [])
            for client, base in sent:
                update = us.Update(client, base, noise(model, client, base), 10 + base)
                assert server.submit(update).accepted
            if disturbed:
                server.save(tmp_path)
                server = us.Server.load(tmp_path, model)
                assert server.optimizer == ADAM
            server.step()
        ends.append((server.params, server.to_tree()[0]["optimizer_state"]))
    assert same(ends[0][0], ends[1][0])
    assert same_state(ends[0][1], ends[1][1])


@pytest.mark.parametrize("name", MADE)
def test_methods_that_make_the_model_refuse_all_but_the_plain_one(name):
    assert us.Server(model_of(), MADE[name], optimizer="plain").optimizer.init() == {}
    with pytest.raises(ConfigError, match=r"mean of models .* Use `optimizer = \"plain\"`"):
        us.Server(model_of(), MADE[name], optimizer="fedadam")


def test_which_methods_make_the_model():
    assert set(MADE) == {"fedat", "fedat by clients"}
