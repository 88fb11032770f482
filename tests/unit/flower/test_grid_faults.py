"""Nodes that fail, leave, repeat themselves and send garbage."""

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from late_grid_world import A, B, C, outcomes, train, world
from pretend_grid import message, reply_to

from unstale.flower.close_policy import ClosePolicy

# what goes wrong


@pytest.mark.parametrize(
    ("code", "outcome"), [(2, "failed"), (8, "failed"), (5, "gone"), (3, "expired")]
)
def test_an_error_closes_the_ticket_and_comes_out_at_once(code, outcome):
    _, grid, late = world({A: 1, B: 3})
    grid.codes = {A: code}
    replies = late.send_and_receive([message(A), message(B)])
    assert outcomes(late, replies) == {A: outcome, B: "answered"}
    assert late.counts == {outcome: 1, "answered": 1}
    assert late.working() == {}
    assert late.is_fast(A), "failing is not being slow"


def test_nodes_that_fail_hold_nobody_up():
    """Of four fast ones two fail: half of the other two is one."""
    clock, grid, late = world({1: 1, 2: 1, 3: 4, 4: 90}, ClosePolicy(fraction=0.5))
    grid.codes = {1: 2, 2: 5}
    replies = late.send_and_receive([message(node) for node in (1, 2, 3, 4)])
    assert outcomes(late, replies) == {1: "failed", 2: "gone", 3: "answered"}
    assert clock.now - 1000 < 4.5


def test_a_round_in_which_all_fail_ends():
    _, grid, late = world({A: 1, B: 1})
    grid.codes = {A: 2, B: 2}
    replies = late.send_and_receive([message(A), message(B)])
    assert outcomes(late, replies) == {A: "failed", B: "failed"}


def test_a_node_that_leaves_costs_its_own_work_and_may_come_back():
    clock, grid, late = world({A: 3, B: 60}, ClosePolicy(deadline=5))
    assert train(late, A, B) == {A: 0}
    clock.at(1, lambda: grid.offline.add(B))
    replies = late.send_and_receive([message(A)])
    assert outcomes(late, replies) == {A: "answered", B: "gone"}
    assert late.idle_nodes() == [A]
    grid.offline.clear()
    grid.seconds[B] = 1
    assert train(late, A, B) == {A: 0, B: 0}


def test_a_reply_is_pulled_before_its_node_can_go_offline():
    """What a node has sent is lost in Flower if it is offline at the time of the pull."""
    clock, grid, late = world({A: 3, B: 4, C: 30}, ClosePolicy())
    clock.at(6, lambda: grid.offline.update({A, B}))
    assert train(late, A, B, C) == {A: 0, B: 0, C: 0}


def test_a_reply_that_comes_twice_counts_once():
    _, grid, late = world({A: 1})
    grid.twice = {A}
    told = []
    late.on_reply = told.append
    assert train(late, A) == {A: 0}
    assert late.counts["repeated"] == 1
    assert len(told) == 1
    grid.twice = set()
    grid.stray = [reply_to(grid.pushed[0])]
    assert train(late, A) == {A: 0}
    assert late.counts["repeated"] == 2, "also in a later round"


def test_a_reply_to_an_unknown_message_is_dropped():
    _, grid, late = world({A: 1})
    stranger = message(B)
    stranger.metadata.__dict__["_message_id"] = "never sent"
    grid.stray = [reply_to(stranger)]
    assert train(late, A) == {A: 0}
    assert late.counts["unknown"] == 1


def test_garbage_ends_neither_the_round_nor_the_work_of_others():
    clock, grid, late = world({A: 1, B: 2, C: 25}, ClosePolicy(deadline=10))
    grid.garbage = {A}
    replies = late.send_and_receive([message(A), message(B), message(C)])
    assert outcomes(late, replies) == {A: "unreadable", B: "answered"}
    clock.now += 30
    replies = late.send_and_receive([message(A), message(B)])
    assert outcomes(late, replies) == {A: "unreadable", B: "answered", C: "answered"}
    assert late.counts == {"unreadable": 2, "answered": 3}


def test_an_upload_that_takes_long_stops_neither_the_others_nor_the_deadline():
    clock, grid, late = world({A: 1, B: 1, C: 20}, ClosePolicy(deadline=10))
    upload = grid.uploading[C] = threading.Event()
    assert train(late, A, B, C) == {A: 0, B: 0}
    grid.seconds |= {A: 12, B: 12}
    late.close_policy = ClosePolicy()
    assert train(late, A, B) == {A: 0, B: 0}, "C began to upload in the middle of it"
    late.close_policy = ClosePolicy(deadline=10)
    grid.seconds[A] = 1
    grid.uploading[A] = threading.Event()
    before = clock.now
    assert train(late, A) == {}
    assert 10 <= clock.now - before < 10.5
    upload.set()
    grid.uploading[A].set()
    until = time.monotonic() + 600
    while late.working() and time.monotonic() < until:
        late.poll()
    assert train(late) == {A: 1, C: 3}


def test_the_end_of_the_run_is_raised():
    _, grid, late = world({A: 1})
    grid.push_messages([message(B)])
    grid.broken = ConnectionError("the run has ended")
    with pytest.raises(ConnectionError):
        train(late, A)


def test_an_interruption_loses_nothing():
    clock, _, late = world({A: 1, B: 50})
    told = []
    late.on_reply = told.append

    def interrupt():
        raise KeyboardInterrupt

    clock.at(20, interrupt)
    with pytest.raises(KeyboardInterrupt):
        train(late, A, B)
    assert [a.ticket.node_id for a in told] == [A], "A was pulled and told of before"
    assert late.working().keys() == {B}
    assert train(late) == {A: 1}, "and is not lost"
    clock.now += 50
    assert train(late) == {B: 2}


# being told


def test_replies_are_told_when_pulled_and_before_the_round_is_over():
    clock, _, late = world({A: 1, B: 9})
    told = []
    late.on_reply = lambda arrival: told.append(
        (arrival.ticket.node_id, arrival.rounds_late, clock.now - 1000)
    )
    train(late, A, B)
    assert [(node, rounds) for node, rounds, _ in told] == [(A, 0), (B, 0)]
    assert told[0][2] < 1.3
    assert told[1][2] >= 9


def test_errors_are_not_told():
    _, grid, late = world({A: 1})
    grid.codes = {A: 2}
    told = []
    late.on_reply = told.append
    train(late, A)
    assert told == []


def test_if_telling_fails_the_reply_is_told_again():
    """A full disk, say: nothing comes out that was not written."""
    _, _, late = world({A: 1, B: 1})
    told, fails = [], [True]

    def write(arrival):
        if fails:
            fails.pop()
            raise OSError("disk full")
        told.append(arrival.ticket.node_id)

    late.on_reply = write
    with pytest.raises(OSError, match="disk full"):
        train(late, A, B)
    assert train(late) == {A: 1, B: 1}
    assert sorted(told) == sorted([A, B])


# whatever happens


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_message_ends_exactly_once(data):
    """Nodes of any speed come, go, fail and send garbage; nothing is lost, nothing twice."""
    nodes = list(range(10, 15))
    _, grid, late = world(
        {node: data.draw(st.integers(0, 40)) for node in nodes},
        ClosePolicy(
            data.draw(st.sampled_from([0.3, 0.8, 1.0])),
            deadline=data.draw(st.sampled_from([3, 15])),
            min_replies=data.draw(st.integers(1, 3)),
        ),
        poll=1.0,
    )
    told, came = [], []
    late.on_reply = lambda arrival: told.append(arrival.ticket.message_id)
    for _ in range(8):
        grid.offline = set(data.draw(st.lists(st.sampled_from(nodes), max_size=2)))
        grid.codes = dict.fromkeys(data.draw(st.lists(st.sampled_from(nodes), max_size=1)), 2)
        grid.garbage = set(data.draw(st.lists(st.sampled_from(nodes), max_size=1)))
        asked = data.draw(st.lists(st.sampled_from(nodes), max_size=6))
        for reply in late.train_round([message(node, version=late.round) for node in asked]):
            arrival = late.arrival_of(reply)
            assert arrival.ticket.version == arrival.ticket.round - 1
            assert arrival.rounds_late == late.round - arrival.ticket.round
            came.append((arrival.ticket.message_id, arrival.outcome))
    grid.offline = set()
    late.close_policy = ClosePolicy(min_replies=100)
    came += [
        (r.metadata.reply_to_message_id, late.arrival_of(r).outcome) for r in late.train_round([])
    ]
    assert sorted(i for i, _ in came) == sorted(m.metadata.message_id for m in grid.pushed)
    assert sorted(told) == sorted(i for i, outcome in came if outcome == "answered")
    assert late.working() == {}
    assert not grid.work
