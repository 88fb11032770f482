"""Promises about absent clients: nothing is added unless asked, and what is added is marked.

They hold for every registered method, its wrappers and chains, as in `test_conformance.py`.
"""

import copy
import dataclasses
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
from unstale.methods.absence import stood_in_for
from unstale.params import clone, flatten

BEFORE = 4
# The methods here that stand in for a client that they know.
STAND_IN = {
    "convert in groups",
    "convert by ensembles",
    "memory",
    "convert",
    "convert all",
    "convert by the nearest",
    "memory, then convert",
    "convert, then memory",
    "memory in wrappers",
    "drop, then memory",
}


@pytest.fixture(params=list(CASES))
def case(request):
    return request.param


class Known(World):
    """A world whose method has met all clients, at version 4; examples differ by version."""

    def __init__(self, case, dtype=torch.float32):
        super().__init__(CASES[case], dtype)
        start = us.ServerState(BEFORE, self.past[BEFORE], *parts(self.state)[1:])
        first = [self.sent(c, b) for c, b in [("a", 4), ("b", 1), ("b", 3), ("c", 2)]]
        self.met = self.step(first, state=start)
        self.state = us.ServerState(NOW, self.past[NOW], *parts(self.met.state)[1:])

    def sent(self, client, base):
        return dataclasses.replace(self.update(client, base), num_examples=10 + base)

    def round(self, *arrivals, absent=()):
        """Return the report of version 6."""
        return self.step([self.sent(c, b) for c, b in arrivals], absent=absent).report


def added(report):
    return [u for u in report.updates if u.stand_in]


def own(report):
    return [u for u in report.updates if not u.stand_in]


def test_nothing_is_added_unless_asked_to(case):
    world = Known(case)
    known = stood_in_for(world.method.compensator, world.state.compensator, NOW)
    assert bool(known) == (case in STAND_IN)
    for report in (world.met.report, world.round(("a", 6)), world.round()):
        assert added(report) == []
        assert {u.client_id for u in report.updates} <= {"a", "b", "c"}
        assert not any(note.kind == "stood_in" for note in report.notes)
    assert world.round().updates == ()


ROUNDS = {
    "one fresh": [("a", 6)],
    "one fresh, two stale": [("a", 6), ("c", 5), ("c", 3)],
    "one stale": [("c", 0)],
}


@pytest.mark.parametrize("arrivals", ROUNDS.values(), ids=ROUNDS)
def test_arrivals_come_out_the_same_whoever_is_absent(case, arrivals):
    world = Known(case)
    alone = world.round(*arrivals)
    for absent in (["b"], ["a", "b", "c", "nobody"]):
        found = world.round(*arrivals, absent=absent)
        assert [u.key for u in own(found)] == [u.key for u in alone.updates]
        for one, other in zip(own(found), alone.updates, strict=True):
            assert same(one.delta, other.delta)
            assert (one.weight, one.num_examples) == (other.weight, other.num_examples)
        rest = [note for note in found.notes if note.kind != "stood_in"]
        assert timeless(rest) == timeless(alone.notes)
        assert (found.staleness, found.arrivals) == (alone.staleness, len(arrivals))


@pytest.mark.parametrize("arrivals", [[], *ROUNDS.values()], ids=["none", *ROUNDS])
def test_what_is_added_is_marked_and_for_absent_clients_only(case, arrivals):
    world = Known(case)
    known = stood_in_for(world.method.compensator, world.state.compensator, NOW)
    came = {client for client, _ in arrivals}
    report = world.round(*arrivals, absent=["c", "nobody", "b", "a", "b"])
    found = added(report)
    assert report.absent == tuple(sorted({"a", "b", "c", "nobody"} - came))
    assert sorted(u.client_id for u in found) == sorted(known - came)
    assert not {u.client_id for u in own(report)} - came
    notes = {n.client_id: n for n in report.notes if n.kind == "stood_in"}
    assert sorted(notes) == sorted(known - came)
    newest = {"a": 4, "b": 3, "c": 2}
    for update in found:
        assert update.staleness(NOW) == 0
        assert update.num_examples == 10 + newest[update.client_id]
        assert 0 < update.weight <= 1
        assert [(p.shape, p.dtype) for p in update.delta.values()] == [
            ((2, 3), torch.float32),
            ((2,), torch.float32),
        ]
        assert bool(torch.isfinite(flatten(update.delta)).all())
        note = notes[update.client_id]
        assert note.base_version == NOW
        assert note.detail == {"age": NOW - newest[update.client_id], "weight": update.weight}


def test_any_order_of_arrival_and_absence_gives_the_same_result(case):
    world = Known(case)
    sent = [world.sent(c, b) for c, b in [("a", 6), ("c", 5), ("c", 3)]]
    first = world.step(sent, absent=["b", "d"])
    for order in itertools.permutations(sent):
        for absent in (["d", "b"], ["b", "c", "d"]):
            again = world.step(list(order), absent=absent)
            assert same(again.state.params, first.state.params)
            assert same_state(again.state.compensator, first.state.compensator)
            assert same_state(again.state.aggregator, first.state.aggregator)
            assert timeless(again.report.notes) == timeless(first.report.notes)


def test_arguments_are_not_modified(case):
    world = Known(case)
    sent = [world.sent(c, b) for c, b in [("a", 6), ("c", 5)]]
    deltas = [clone(u.delta) for u in sent]
    past = {v: clone(p) for v, p in world.past.items()}
    state = copy.deepcopy(parts(world.state)[1:])
    weights = clone(dict(world.model.named_parameters()))
    absent = ["b", "a", "c"]
    found = [u for u in world.step(sent, absent=absent).report.updates if u.stand_in]
    assert absent == ["b", "a", "c"]
    assert all(same(u.delta, d) for u, d in zip(sent, deltas, strict=True))
    assert all(same(world.past[v], past[v]) for v in past)
    assert same_state(list(parts(world.state)[1:]), list(state))
    assert same(dict(world.model.named_parameters()), weights)
    again = [u for u in world.step(sent, absent=absent).report.updates if u.stand_in]
    for one, other in zip(found, again, strict=True):
        assert same(one.delta, other.delta)


AVERAGED = [case for case in CASES if isinstance(CASES[case].aggregator, us.FedAvg)]


@pytest.mark.parametrize("case", AVERAGED)
def test_it_is_averaged_like_any_other(case):
    """A stand-in counts like a fresh update with its examples and weight."""
    world = Known(case, torch.float64)
    result = world.step([world.sent("a", 6)], absent=["b", "c"])
    used = result.report.updates
    total = sum(u.num_examples * u.weight for u in used)
    for name, start in world.past[NOW].items():
        mean = sum(u.num_examples * u.weight * u.delta[name] for u in used) / total
        assert torch.allclose(result.state.params[name], start + mean, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [1e30, 3e38])
def test_huge_updates_stay_harmless_while_their_clients_are_absent(case, size):
    world = World(CASES[case])
    huge = world.arrivals(size=1.0)
    for update in huge:
        for p in update.delta.values():
            p.copy_(p.sign() * size)
    state = world.step(huge).state
    for _ in range(3):
        state = us.ServerState(NOW, *parts(state))
        state = world.step([], state=state, absent=["a", "b", "c"]).state
        assert bool(torch.isfinite(flatten(state.params)).all())


# Of the slow client: the rounds in which it is asked, and those in which it answers. It does so
# in a round that has drawn it, so it is stood in for in round 4 although it is asked then.
ASKED, ANSWERS = (0, 4), {2: 0, 6: 4}


def test_the_state_survives_save_and_load_amid_absences(case, tmp_path):
    ends = []
    for disturbed in (False, True):
        model = model_of()
        server = us.Server(model, method=CASES[case], seed=3, inputs=INPUTS)
        server.register("fast")
        server.register("slow")
        lines = []
        for round_ in range(9):
            fast, _ = server.check_out("fast")
            server.submit(us.Update("fast", fast, noise(model, "fast", fast), 10))
            if round_ in ASKED:
                server.check_out("slow")
            if round_ in ANSWERS:
                base = ANSWERS[round_]
                update = us.Update("slow", base, noise(model, "slow", base), 20 + base)
                assert server.submit(update).accepted
            if disturbed:
                server.save(tmp_path)
                server = us.Server.load(tmp_path, model)
            absent = ["slow", "gone"] if round_ not in ASKED else ["gone"]
            line = server.step(absent).to_json()
            lines.append({k: v for k, v in line.items() if k != "seconds"})
        ends.append((server.params, lines, server.to_tree()[0], server.stands_in_for()))
    whole, pieces = ends
    assert same(whole[0], pieces[0])
    assert whole[1] == pieces[1]
    assert same_state(whole[2]["compensator"], pieces[2]["compensator"])
    assert whole[3] == pieces[3]
    in_place = [len(line.get("stand_ins", ())) for line in whole[1]]
    assert in_place == ([0, 0, 0, 1, 1, 1, 0, 1, 1] if case in STAND_IN else [0] * 9)
    assert [line["absent"] for line in whole[1]] == [1, 2, 1, 2, 2, 2, 1, 2, 2]
    assert [line["arrivals"] for line in whole[1]] == [1, 1, 2, 1, 1, 1, 2, 1, 1]


def test_the_list_covers_standing_in_and_not():
    assert {*CASES} > STAND_IN
    assert {"unweighted", "drop", "convert without standing in"} <= {*CASES} - STAND_IN
