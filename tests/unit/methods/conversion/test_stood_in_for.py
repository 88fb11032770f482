"""For which absent clients `convert` stands in, and with which weight."""

import dataclasses

import pytest
import torch
from late_world import changed
from standing import FEW, added, kinds, same

import unstale as us
from unstale.methods.absence import stood_in_for
from unstale.methods.conversion import SwitchBack, Switching


def test_disabled_it_adds_nothing(world, known):
    off = changed(FEW, enabled=False)
    arrivals = [world.update("f", 9), world.update("t", 6)]
    for state in (known, off.init()):
        plain = off.apply(arrivals, state, world.view(9))
        asked = off.apply(arrivals, state, world.view(9, absent=("s",)))
        usual = FEW.apply(arrivals, state, world.view(9))
        assert added(asked) == {}
        for outcome in (plain, usual):
            assert kinds(asked) == kinds(outcome)
            for one, other in zip(asked.updates, outcome.updates, strict=True):
                assert same(dict(one.delta), dict(other.delta))
    assert off.stands_in_for(known, 9) == frozenset()
    assert off.apply([], known, world.view(9, absent=("s",), model=None)).updates == ()


def test_not_beyond_max_age(world, known):
    bounded = changed(FEW, max_age=6)
    for now, wanted in ((8, {"s", "t"}), (9, {"t"}), (10, set())):  # from versions 2 and 3
        outcome = bounded.apply([], known, world.view(now, absent=("s", "t")))
        assert set(added(outcome)) == wanted
        assert bounded.stands_in_for(known, now) == wanted
        assert [n.detail["age"] for n in outcome.notes] == [now - 2, now - 3][2 - len(wanted) :]


def test_not_for_a_client_whose_surrogate_was_given_up(world, known):
    rng = torch.Generator().manual_seed(0)
    bad = world.update("s", 5)
    noise = {n: torch.randn(p.shape, generator=rng) for n, p in bad.delta.items()}
    strict = changed(FEW, max_loss=0.3)
    state = strict.apply([dataclasses.replace(bad, delta=noise)], known, world.view(8)).state
    outcome = strict.apply([], state, world.view(9, absent=("s", "t")))
    assert set(added(outcome)) == {"t"} == strict.stands_in_for(state, 9)


def test_not_for_a_client_that_is_forgotten(world, known):
    few = changed(FEW, max_clients=2)
    state = few.apply([world.update("u", 4)], known, world.view(8)).state
    assert few.stands_in_for(state, 9) == {"s", "u"}
    assert set(added(few.apply([], state, world.view(9, absent=("s", "t", "u"))))) == {"s", "u"}


def test_a_client_that_is_not_unique_is_left_alone(world):
    method = us.only_unique(FEW, threshold=2.0)
    # Of version 2 there are no fresh updates, so both are converted; of version 5 there are.
    state = method.apply(
        [world.update("h", 2), world.update("s", 2)], method.init(), world.view(4)
    ).state
    fresh = [world.update("f", 5), world.update("g", 5)]
    state = method.apply(fresh, state, world.view(5)).state
    assert set(added(method.apply([], state, world.view(7, absent=("h", "s"))))) == {"h", "s"}
    common = dataclasses.replace(fresh[0], client_id="h")
    outcome = method.apply([common, world.update("s", 5)], state, world.view(8))
    assert kinds(outcome, "h") == ["kept"]
    assert "converted" in kinds(outcome, "s")
    state = outcome.state
    found = method.apply([], state, world.view(9, absent=("h", "s")))
    assert set(added(found)) == {"s"} == method.stands_in_for(state, 9)
    # Its next update is from a version without fresh ones, hence unique again.
    state = method.apply([world.update("h", 6)], found.state, world.view(10)).state
    assert set(added(method.apply([], state, world.view(11, absent=("h", "s"))))) == {"h", "s"}


def test_a_client_that_has_switched_back_counts_by_its_share(world, known):
    method = us.switch_back(FEW, window=0.5)
    entry = {"estimates": [], "worse": 2, "switched": 8, "newest": 2}
    state = {"inner": known, "clients": {"s": entry}}
    for now, gamma in ((8, 1.0), (9, 0.75), (11, 0.25), (12, 0.0)):
        outcome = method.apply([], state, world.view(now, absent=("s", "t")))
        weights = {client: update.weight for client, update in added(outcome).items()}
        wanted = {"s": gamma, "t": 1.0} if gamma else {"t": 1.0}
        assert weights == wanted
        assert {n.client_id: n.detail["weight"] for n in outcome.notes} == wanted
        assert method.stands_in_for(state, now) == set(wanted)


def test_a_stand_in_of_another_part_is_no_truth(world):
    """What `memory` makes up for a client says nothing about earlier estimates for it."""
    switch = SwitchBack(FEW, Switching(patience=1))
    method = us.chain(us.Memory(), switch)
    state = method.apply([world.update("s", 2)], method.init(), world.view(6)).state
    waiting = state["parts"][1]["clients"]["s"]
    assert [e["version"] for e in waiting["estimates"]] == [6]
    outcome = method.apply([], state, world.view(7, absent=("s",)))
    assert kinds(outcome) == ["stood_in"]
    assert outcome.state["parts"][1]["clients"]["s"] == waiting
    truth = method.apply([world.update("s", 6)], outcome.state, world.view(9))
    assert "measured" in kinds(truth), "the client's own update is one"


@pytest.mark.parametrize("parts", [(FEW, FEW), (FEW, us.Memory()), (us.Memory(), FEW)])
def test_two_parts_of_a_chain_do_not_both_stand_in(world, parts):
    method = us.chain(*parts)
    state = method.apply([world.update("s", 2)], method.init(), world.view(6)).state
    alone = [set(stood_in_for(p, m, 9)) for p, m in method.parts(state)]
    assert alone == [{"s"}, {"s"}]
    outcome = method.apply([], state, world.view(9, absent=("s",)))
    assert [u.client_id for u in outcome.updates] == ["s"]
    assert kinds(outcome) == ["stood_in"]
