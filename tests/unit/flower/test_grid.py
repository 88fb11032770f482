"""Rounds that do not wait for slow nodes."""

import logging

import pytest
from late_grid_world import A, B, C, train, world
from pretend_grid import message

from unstale.flower.close_policy import ClosePolicy

# fast, slow and late


def test_a_first_round_waits_for_all():
    clock, _, late = world({A: 2, B: 5, C: 30})
    assert train(late, A, B, C) == {A: 0, B: 0, C: 0}
    assert 30 <= clock.now - 1000 < 30.3, "it closes as soon as the last has answered"
    assert late.last_round.closed_by == "complete"
    assert all(late.is_fast(node) for node in (A, B, C))


def test_a_late_reply_comes_out_in_the_round_in_which_it_arrives():
    clock, _, late = world({A: 2, B: 2, C: 25}, ClosePolicy(deadline=10))
    assert train(late, A, B, C, version=40) == {A: 0, B: 0}
    assert late.last_round.closed_by == "time"
    assert 10 <= clock.now - 1000 < 10.3
    assert not late.is_fast(C)
    assert train(late, A, B, C, version=41) == {A: 0, B: 0}, "C is not waited for any more"
    assert late.last_round.seconds < 2.3
    assert late.last_round.not_asked == {C: "busy"}
    assert late.working()[C].version == 40
    clock.now += 20
    (arrival,) = [
        late.arrival_of(r)
        for r in late.send_and_receive([message(A, version=42), message(B, version=42)])
        if late.arrival_of(r).ticket.node_id == C
    ]
    assert (arrival.ticket.version, arrival.ticket.round, arrival.rounds_late) == (40, 1, 2)
    assert arrival.seconds == pytest.approx(clock.now - 1000, abs=3)
    assert not late.is_fast(C), "it was late"


def test_a_slow_node_that_answers_in_its_round_is_fast_again():
    clock, grid, late = world({A: 2, B: 20}, ClosePolicy(deadline=10))
    assert train(late, A, B) == {A: 0}
    clock.now += 20
    assert train(late, A) == {A: 0, B: 1}
    assert not late.is_fast(B)
    grid.seconds[B] = 1
    assert train(late, A, B) == {A: 0, B: 0}
    assert late.is_fast(B)
    grid.seconds[B] = 5
    assert train(late, A, B) == {A: 0, B: 0}, "so it is waited for again"


def test_failing_in_its_round_makes_nobody_fast():
    clock, grid, late = world({A: 1, B: 20}, ClosePolicy(deadline=10))
    train(late, A, B)
    clock.now += 20
    train(late, A)
    grid.seconds[B], grid.codes[B] = 0, 2
    assert train(late, A, B) == {A: 0}
    assert not late.is_fast(B)


def test_a_fraction_of_the_fast_nodes_closes_the_round():
    clock, _, late = world({10 + i: 1 + i for i in range(5)}, ClosePolicy(fraction=0.6))
    assert train(late, *range(10, 15)) == {10: 0, 11: 0, 12: 0}
    assert late.last_round.closed_by == "replies"
    assert 3 <= clock.now - 1000 < 3.3
    assert [late.is_fast(node) for node in range(10, 15)] == [True] * 3 + [False] * 2


def test_slow_nodes_alone_are_waited_for_until_there_are_replies_enough():
    _, _, late = world({A: 20, B: 30, C: 40}, ClosePolicy(deadline=10, min_replies=2))
    assert train(late, A, B, C) == {}
    late.close_policy = ClosePolicy(min_replies=2)
    assert train(late) == {A: 1, B: 1}, "a round without messages waits for arrivals"
    assert train(late, A, B) == {A: 0, C: 2}, "the wait is for any two"


def test_all_busy_waits_instead_of_spinning():
    clock, _, late = world({A: 100, B: 200}, ClosePolicy(deadline=10))
    train(late, A, B)
    late.close_policy = ClosePolicy()
    assert train(late, A, B) == {A: 1}
    assert 100 <= clock.now - 1000 < 100.3
    assert len(clock.pauses) < 700
    assert late.last_round.asked == ()
    assert late.last_round.not_asked == {A: "busy", B: "busy"}


def test_a_deadline_also_ends_a_round_in_which_all_are_busy():
    clock, _, late = world({A: None}, ClosePolicy(deadline=10))
    train(late, A)
    assert train(late) == {}
    assert 20 <= clock.now - 1000 < 20.5


def test_flowers_timeout_is_a_deadline_too():
    clock, _, late = world({A: None}, ClosePolicy(deadline=100))
    assert train(late, A, timeout=7) == {}
    assert 7 <= clock.now - 1000 < 7.3
    assert A in late.working(), "its message stays out"


# who is asked


def test_a_node_is_asked_once_even_if_a_call_has_two_messages_for_it():
    _, grid, late = world({A: 1})
    (reply,) = late.train_round([message(A, version=3), message(A, version=4)])
    assert len(grid.pushed) == 1
    assert late.arrival_of(reply).ticket.version == 3


def test_refused_messages_open_no_ticket():
    _, grid, late = world({A: 1, B: 1})
    grid.unknown = {B}
    assert train(late, A, B) == {A: 0}
    assert late.last_round.asked == (A,)
    assert late.last_round.not_asked == {B: "refused"}
    assert late.counts["refused"] == 1
    assert late.working() == {}


def test_if_all_are_refused_rounds_pass_without_spinning():
    clock, grid, late = world({A: 1})
    grid.unknown = {A}
    for _ in range(10):
        assert train(late, A) == {}
    assert clock.now - 1000 >= 2, "a pause in each"


def test_idle_nodes_are_those_connected_that_do_not_work():
    clock, grid, late = world({A: 1, B: 20, C: 1}, ClosePolicy(deadline=10))
    grid.offline = {C}
    train(late, A, B)
    assert late.idle_nodes() == [A]
    grid.offline = set()
    assert sorted(late.idle_nodes()) == [A, C], "one that joins can be asked"
    clock.now += 20
    assert sorted(late.idle_nodes()) == [A, B, C], "looks for replies first"
    assert train(late, A, B) == {A: 0, B: 1}
    assert late.working()[B].round == 2, "asked again in the round in which its reply comes out"


def test_the_reply_pulled_between_rounds_comes_out_in_the_next():
    clock, _, late = world({A: 1, B: 20}, ClosePolicy(deadline=10))
    train(late, A, B)
    clock.now += 20
    late.poll()
    assert B not in late.working()
    assert train(late, A) == {A: 0, B: 1}


def test_a_node_that_joins_in_the_middle_of_a_round_is_asked_in_the_next():
    clock, grid, late = world({A: 10}, ClosePolicy())
    clock.at(5, lambda: grid.seconds.update({B: 1}))
    assert train(late, A) == {A: 0}
    assert sorted(late.idle_nodes()) == [A, B]
    assert train(late, A, B) == {A: 0, B: 0}


def test_without_nodes_it_waits_for_one_and_says_so(caplog):
    clock, grid, late = world({})
    clock.at(100, lambda: grid.seconds.update({A: 1}))
    with caplog.at_level(logging.INFO, "unstale"):
        assert train(late) == {}
    assert 100 <= clock.now - 1000 < 100.5
    assert late.idle_nodes() == [A]
    lines = [r for r in caplog.records if "Waiting for nodes" in r.getMessage()]
    assert len(lines) == 3, "every half minute"


def test_waiting_for_nodes_counts_busy_ones_and_ends_in_time():
    clock, grid, late = world({A: None}, ClosePolicy(deadline=10))
    train(late, A)
    clock.at(20, lambda: grid.seconds.update({B: 1}))
    assert sorted(late.wait_for_nodes(2)) == [A, B]
    assert sorted(late.wait_for_nodes(3, timeout=5)) == [A, B]


def test_it_tells_whom_it_waits_for(caplog):
    _, _, late = world({A: 65})
    with caplog.at_level(logging.INFO, "unstale"):
        train(late, A)
    lines = [r.getMessage() for r in caplog.records]
    assert len(lines) == 2
    assert "Round 1 waits: 1 fast nodes have not answered" in lines[0]
