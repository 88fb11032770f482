"""Evaluation, emulated lateness, and what messages carry."""

import pytest
from late_grid_world import A, B, C, outcomes, train, world
from pretend_grid import message

from unstale.errors import ConfigError
from unstale.flower.close_policy import ClosePolicy

# evaluation and queries


def test_evaluation_goes_to_idle_nodes_only_and_makes_no_round():
    _, grid, late = world({A: 1, B: 100}, ClosePolicy(deadline=10))
    train(late, A, B)
    replies = late.send_and_receive([message(A, "evaluate"), message(B, "evaluate")])
    assert [r.metadata.src_node_id for r in replies] == [A]
    assert late.round == 1
    assert len(grid.pushed) == 3
    assert late.working().keys() == {B}
    assert late.counts == {"answered": 1}


def test_late_evaluation_is_dropped_and_its_node_busy_until_then():
    clock, _, late = world({A: 1, B: 12}, ClosePolicy(deadline=10))
    replies = late.send_and_receive([message(A, "query"), message(B, "query")])
    assert [r.metadata.src_node_id for r in replies] == [A]
    assert late.idle_nodes() == [A]
    assert train(late, A, B) == {A: 0}
    assert late.last_round.not_asked == {B: "busy"}
    clock.now += 12
    assert sorted(late.idle_nodes()) == [A, B]
    assert late.counts["overdue"] == 1
    assert "unknown" not in late.counts


def test_training_replies_that_come_during_evaluation_are_kept():
    _, _, late = world({A: 1, B: 14}, ClosePolicy(deadline=10))
    train(late, A, B)
    late.send_and_receive([message(A, "evaluate")])
    assert train(late, A) == {A: 0}
    late.ask([message(A, "evaluate.slowly")], timeout=30)
    late.ask([message(A, "evaluate")])
    late.ask([message(A, "evaluate")])
    assert train(late, A) == {A: 0, B: 2}


def test_a_call_without_messages_is_an_evaluation_right_after_training():
    """As Flower's `start` calls by turns; evaluation that is turned off must not wait."""
    clock, _, late = world({A: 1, B: 100}, ClosePolicy(deadline=10))
    late.send_and_receive([message(A), message(B)])
    before = clock.now
    assert late.send_and_receive([]) == []
    assert clock.now == before
    assert late.round == 1
    assert late.send_and_receive([]) == []
    assert late.round == 2, "and a round of training in which nobody is idle after that"


def test_training_and_evaluation_do_not_mix():
    _, grid, late = world({A: 1, B: 1})
    with pytest.raises(ConfigError, match="two calls"):
        late.send_and_receive([message(A), message(B, "evaluate")])
    assert not grid.pushed


# emulated lateness


def test_emulated_lateness_is_exact_to_the_round():
    clock, grid, late = world({A: 1, B: 1}, delay={A: 0, B: 2}.get)
    came = [train(late, *late.idle_nodes()) for _ in range(7)]
    assert came == [{A: 0}, {A: 0}, {A: 0, B: 2}] * 2 + [{A: 0}]
    assert clock.now - 1000 < 8.5, "nobody waits for an emulated delay"
    assert [m.metadata.dst_node_id for m in grid.pushed].count(B) == 3


def test_emulated_work_is_pulled_at_once_but_counts_as_work():
    _, _, late = world({A: 1, B: 1}, delay={A: 0, B: 2}.get)
    told = []
    late.on_reply = lambda a: told.append((a.ticket.node_id, a.rounds_late))
    train(late, A, B)
    train(late, A)
    assert told[:2] == [(A, 0), (B, 2)] or told[:2] == [(B, 2), (A, 0)]
    assert late.working()[B].round == 1
    assert not late.is_fast(B)
    assert train(late, A, B) == {A: 0, B: 2}
    assert late.last_round.not_asked == {B: "busy"}
    assert late.working() == {}


def test_a_round_waits_for_emulated_replies_whose_time_has_come():
    """Or the machine's speed would decide in which round they come out."""
    clock, _, late = world({A: 1, B: 50}, delay={A: 0, B: 1}.get)
    assert train(late, A, B) == {A: 0}
    assert clock.now - 1000 < 1.3, "and not before"
    assert train(late, A) == {A: 0, B: 1}


def test_emulated_work_is_not_waited_for_while_another_is_really_late():
    clock, _, late = world(
        {A: 1, B: 50, C: None}, ClosePolicy(deadline=10), delay={A: 0, B: 5, C: 0}.get
    )
    train(late, A, C)
    before = clock.now
    assert train(late, A, B) == {A: 0}
    assert clock.now - before < 1.3


def test_rounds_in_which_all_are_held_back_pass_at_once():
    clock, _, late = world({A: 1, B: 1}, delay=lambda node: 3)
    assert train(late, A, B) == {}
    late.poll()
    clock.now += 1
    assert [train(late), train(late)] == [{}, {}]
    assert clock.now - 1000 < 1.3
    replies = late.train_round([])
    assert outcomes(late, replies) == {A: "answered", B: "answered"}


def test_errors_are_not_held_back():
    _, grid, late = world({A: 1, B: 1}, delay={A: 0, B: 5}.get)
    grid.codes = {B: 2}
    late.send_and_receive([message(A), message(B)])
    late.poll()
    assert late.working() == {}


@pytest.mark.parametrize("delay", [-1, 1.0, None, "2"])
def test_a_wrong_delay_is_refused_before_anything_is_sent(delay):
    _, grid, late = world({A: 1, B: 1}, delay={A: 0, B: delay}.get)
    with pytest.raises(ConfigError, match="delay"):
        train(late, A, B)
    assert not grid.pushed
    assert late.working() == {}


# messages


def test_the_time_to_live_follows_from_the_longest_lateness():
    _, grid, late = world({A: 1}, longest_lateness=3600)
    train(late, A)
    assert 3600 < grid.pushed[-1].metadata.ttl < 4100
    _, grid, late = world({A: 1})
    train(late, A)
    assert grid.pushed[-1].metadata.ttl > 50 * 365 * 86_400
    late.send_and_receive([message(A, "evaluate", ttl=77.0)])
    assert grid.pushed[-1].metadata.ttl == 77.0


def test_work_that_outlives_its_time_is_expired():
    clock, _, late = world({A: 1, B: None}, ClosePolicy(deadline=10), longest_lateness=100)
    train(late, A, B)
    clock.now += 200
    replies = late.send_and_receive([message(A)])
    assert outcomes(late, replies) == {A: "answered", B: "expired"}
    assert sorted(late.idle_nodes()) == sorted([A, B])


def test_a_version_that_is_not_told_is_the_number_of_rounds_before():
    _, _, late = world({A: 1})
    train(late, A)
    (reply,) = late.send_and_receive([message(A)])
    assert late.arrival_of(reply).ticket.version == 1


@pytest.mark.parametrize("version", [-1, 1.5, True, "3", [3]])
def test_a_wrong_version_is_refused(version):
    _, grid, late = world({A: 1})
    with pytest.raises(ConfigError, match="unstale-version"):
        train(late, A, version=version)
    assert not grid.pushed


def test_rounds_are_numbered_from_where_a_run_goes_on():
    _, _, late = world({A: 1}, first_round=8)
    train(late, A)
    assert late.round == 8
    late.resume_at(31)
    (reply,) = late.train_round([message(A)])
    assert late.arrival_of(reply).ticket.round == 31


def test_only_replies_of_the_last_round_are_known():
    _, _, late = world({A: 1})
    (first,) = late.train_round([message(A)])
    assert late.arrival_of(first) is not None
    late.train_round([message(A)])
    assert late.arrival_of(first) is None


@pytest.mark.parametrize("options", [{"poll": 0}, {"longest_lateness": -1}])
def test_wrong_settings_are_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        world({}, **options)


def test_the_rest_is_the_wrapped_grid():
    _, _, late = world({A: 1})
    late.set_run("a run")
    assert late.run == "a run"
    assert late.get_node_ids() == [A]
    assert [node.node_id for node in late.get_nodes()] == [A]
    assert late.create_message("c", "train", A, "g", 1.0) == ("made", "c", "train", A, "g", 1.0)
    (message_id,) = late.push_messages([message(A)])
    assert list(late.pull_messages([message_id])) == []
