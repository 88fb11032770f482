"""Absent clients at the server: who counts as absent, and that nobody counts twice."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

import unstale as us
from unstale.methods import Stateless
from unstale.seeding import generator

LOCAL = us.LocalSpec(lr=0.5, steps=3)
INPUTS = us.InputSpec((3,), 2, 0.0, 1.0)
FEW = {"inversion": {"sparsity": 0, "iterations": 4, "warm_iterations": 2, "max_loss": 10.0}}


def server_of(method):
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(0.5 * torch.randn(p.shape, generator=generator(i, "weights")))
    return us.Server(model, method, local=LOCAL, inputs=INPUTS, seed=3)


def work(server, client, examples=8):
    """What a client sends that checks out now."""
    version, weights = server.check_out(client)
    x = torch.rand(8, 3, generator=generator(0, client))
    y = torch.full((8,), 1 if client.startswith("s") else 0)
    delta = us.local_update(server.model, weights, x, y, LOCAL)
    return us.Update(client, version, delta, examples)


def play(server, *arrivals, absent=()):
    """A round of one fast client and what else arrives."""
    for update in (work(server, "f"), *arrivals):
        assert server.submit(update).accepted
    return server.step(absent)


def knowing(method="convert", **settings):
    """Return a server at version 3 that knows the slow client `s` by its update from version 0."""
    server = server_of(us.method(method, **({**FEW, **settings} if method == "convert" else {})))
    stale = work(server, "s", examples=11)
    play(server)
    play(server)
    play(server, stale)
    return server


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


def in_place(report):
    return [u.client_id for u in report.updates if u.stand_in]


# --- who is absent -----------------------------------------------------------------------


@pytest.mark.parametrize("method", ["convert", "memory"])
def test_ids_may_be_unknown_repeated_and_in_any_order(method):
    ends = []
    for absent in (["s"], ["x", "s", "nobody", "s"], ("nobody", "s", "", "x"), iter("sx")):
        server = knowing(method)
        report = play(server, absent=absent)
        assert in_place(report) == ["s"]
        ends.append(server.params)
    assert all(same(end, ends[0]) for end in ends)
    assert report.absent == ("s", "x")
    assert report.to_json()["absent"] == 2


def test_a_client_whose_own_update_arrived_is_not_absent():
    ends = []
    for absent in ([], ["s"]):
        server = knowing()
        own = work(server, "s")
        play(server)
        report = play(server, own, absent=absent)
        assert (in_place(report), report.absent, report.arrivals) == ([], (), 2)
        assert sorted(u.client_id for u in report.updates) == ["f", "s"]
        ends.append(server.params)
    assert same(*ends)


@pytest.mark.parametrize("method", ["convert", "memory", "unweighted"])
def test_the_weights_do_not_move_if_nobody_stands_in(method):
    server = server_of(us.method(method, **(FEW if method == "convert" else {})))
    before = server.params
    report = server.step(["s", "t"])
    assert (report.version, report.changed, report.updates) == (1, False, ())
    assert same(server.params, before)
    assert server.stands_in_for() == frozenset()
    line = report.to_json()
    assert (line["absent"], line["arrivals"], line.get("stand_ins", [])) == (2, 0, [])


def test_standing_in_is_off_where_it_is_turned_off():
    ends = []
    for absent in ((), ["s"]):
        server = knowing(stand_in=False)
        for _ in range(3):
            assert in_place(play(server, absent=absent)) == []
        assert server.step(absent).changed is False
        ends.append(server.params)
    assert same(*ends)
    usual = knowing()
    for _ in range(3):
        play(usual)
    assert same(usual.params, ends[0]), "and on, without absent clients, it makes no difference"


# --- what is added -----------------------------------------------------------------------


def test_a_stand_in_is_todays_local_update_of_the_clients_surrogate():
    server = knowing()
    assert server.stands_in_for() == {"s"}
    weights, surrogate = server.params, server.surrogates()["s"]
    report = server.step(["s"])
    (update,) = report.updates
    recipe = us.Inversion().local_for(LOCAL, 11)
    wanted = us.local_update(server.model, weights, surrogate.x, surrogate.labels, recipe)
    assert same(dict(update.delta), wanted)
    assert (update.client_id, update.base_version, update.num_examples) == ("s", 3, 11)
    assert (update.weight, update.stand_in) == (1.0, True)
    # Alone in its round it moves the weights by itself, and it is no arrival.
    assert all(torch.equal(server.params[n], weights[n] + wanted[n]) for n in wanted)
    assert (report.changed, report.arrivals, report.staleness) == (True, 0, ())
    line = report.to_json()
    assert line["stand_ins"] == [{"client": "s", "age": 3, "weight": 1.0}]
    assert line["staleness"]["counts"] == {}


def test_its_own_update_for_the_same_version_is_still_accepted():
    server = knowing()
    own = work(server, "s")  # at work on version 3
    assert own.base_version == 3
    report = play(server, absent=["s"])
    assert [u.base_version for u in report.updates if u.stand_in] == [3]
    for _ in range(2):
        assert in_place(play(server, absent=["s"])) == ["s"]
    assert server.outstanding == [3], "its work is still waited for"
    assert server.weights_of(3) is not None
    assert server.submit(own).accepted
    assert server.submit(own).code == "repeated", "its own, twice"
    report = server.step(["s"])
    assert [(u.client_id, u.stand_in) for u in report.updates] == [("s", False)]
    assert server.outstanding == []
    kinds = [note.kind for note in report.notes]
    assert ("converted" in kinds, "checked" in kinds) == (True, True)


def test_an_update_that_is_submitted_is_no_stand_in():
    server = server_of(us.method("memory"))
    sent = work(server, "s")
    marked = us.Update("s", 0, sent.delta, 8, stand_in=True)
    assert server.submit(marked).accepted
    report = server.step(["s"])
    assert [(u.client_id, u.stand_in) for u in report.updates] == [("s", False)]
    assert server.stands_in_for() == {"s"}, "so it is remembered like any other"


@dataclass(frozen=True, slots=True)
class Wrong(Stateless):
    """Stands in by an update that is not finite."""

    def apply(self, updates, state, view):
        delta = {n: torch.full_like(p, float("nan")) for n, p in view.params.items()}
        added = [us.Update(c, view.version, delta, 1, stand_in=True) for c in view.absent]
        return us.Outcome((*updates, *added), state)


def test_one_that_is_not_finite_is_left_out_and_noted():
    ends = []
    for absent in ([], ["s", "t"]):
        server = server_of(us.Method(Wrong()))
        report = play(server, absent=absent)
        assert [u.client_id for u in report.updates] == ["f"]
        found = [(n.client_id, n.detail["did"]) for n in report.notes if n.kind == "fallback"]
        assert found == [(client, "drop") for client in absent]
        ends.append(server.params)
    assert same(*ends)


# --- save and load -----------------------------------------------------------------------


@pytest.mark.parametrize("method", ["convert", "memory"])
@pytest.mark.parametrize("saved_at", range(7))
def test_saved_in_the_middle_of_an_absence_it_goes_on_to_the_bit(method, saved_at, tmp_path):
    """The client is away in rounds 0 to 3, back in round 4, and away again."""
    ends = []
    for disturbed in (False, True):
        server = knowing(method)
        own = work(server, "s")
        lines = []
        for round_ in range(7):
            if disturbed and round_ == saved_at:
                server.save(tmp_path)
                server = us.Server.load(tmp_path, server.model)
            back = [own] if round_ == 4 else []
            line = play(server, *back, absent=["s", "nobody"]).to_json()
            lines.append({k: v for k, v in line.items() if k != "seconds"})
        ends.append((server.params, lines, server.stands_in_for(), server.outstanding))
    assert same(ends[0][0], ends[1][0])
    assert ends[0][1:] == ends[1][1:]
    assert [len(line.get("stand_ins", ())) for line in ends[0][1]] == [1, 1, 1, 1, 0, 1, 1]
    assert sum(len(line.get("checked", ())) for line in ends[0][1]) == (method == "convert")


# --- turns: whose late answer came in a round that had drawn it ---------------------------


@pytest.mark.parametrize("method", ["convert", "memory"])
@pytest.mark.parametrize("was_drawn", [True, False])
def test_it_is_stood_in_for_when_asked_again_if_its_answer_came_in_a_round_of_its_own(
    method, was_drawn
):
    server = knowing(method)
    own = work(server, "s")
    play(server, absent=["s"])
    play(server, own, absent=["s"] if was_drawn else [])
    assert in_place(play(server)) == [], "it is not asked in this round"
    work(server, "s")
    assert in_place(play(server)) == (["s"] if was_drawn else [])
    work(server, "s")
    assert in_place(play(server)) == [], "one turn was owed, not two"


def test_who_answers_at_once_keeps_the_turn_for_the_next_time():
    server = knowing("memory")
    own = work(server, "s")
    play(server)
    play(server, own, absent=["s"])
    report = play(server, work(server, "s"))
    assert (in_place(report), report.arrivals) == ([], 2)
    work(server, "s")
    assert in_place(play(server)) == ["s"]


def test_in_a_round_in_which_nobody_is_stood_in_for_the_turn_is_kept():
    server = knowing("memory")
    own = work(server, "s")
    play(server)
    play(server, own, absent=["s"])
    work(server, "s")
    report = play(server, absent=None)
    assert (in_place(report), report.absent) == ([], ())
    work(server, "s")
    assert in_place(play(server)) == ["s"]


@pytest.mark.parametrize("method", ["convert", "memory"])
def test_a_turn_that_is_owed_survives_save_and_load(method, tmp_path):
    ends = []
    for disturbed in (False, True):
        server = knowing(method)
        own = work(server, "s")
        play(server, own, absent=["s"])
        if disturbed:
            server.save(tmp_path)
            server = us.Server.load(tmp_path, server.model)
        work(server, "s")
        assert in_place(play(server)) == ["s"]
        ends.append(server.params)
    assert same(*ends)
