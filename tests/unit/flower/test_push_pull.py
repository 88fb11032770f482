"""Pushing and pulling when some of it goes wrong."""

import threading
import time

import pytest
from pretend_grid import PretendClock, PretendGrid, message

from unstale.flower.messages import outcome_of
from unstale.flower.push_pull import PushPull

HANGS = 600  # seconds after which a test gives up; none is expected to come near


def a_grid(seconds, **options):
    clock = PretendClock()
    return clock, PretendGrid(clock, seconds, **options)


def outcomes(replies):
    return {r.metadata.reply_to_message_id: outcome_of(r) for r in replies}


@pytest.mark.parametrize("refused_as", ["", None])
def test_refused_messages_are_told_by_their_ids(refused_as):
    """Never by position: over HTTP a refused one has an empty id, in memory none at all."""
    _, grid = a_grid({5: 1, 6: 1, 7: 1}, refused_as=refused_as)
    grid.unknown = {6}
    messages = [message(node) for node in (5, 6, 7)]
    assert PushPull(grid).push(messages) == [messages[0], messages[2]]


def test_a_batch_that_is_too_large_goes_one_by_one():
    _, grid = a_grid({5: 1, 6: 1})
    whole = grid.push_messages
    grid.push_messages = lambda messages: whole(messages) if len(messages) == 1 else []
    assert len(PushPull(grid).push([message(5), message(6)])) == 2


def test_nothing_is_asked_for_nothing():
    _, grid = a_grid({})
    link = PushPull(grid, patience=HANGS)
    assert link.push([]) == []
    assert link.pull({}) == []
    assert not grid.pulls


def test_garbage_harms_others_once_at_most():
    clock, grid = a_grid({5: 1, 6: 1, 7: 9})
    grid.garbage = {6}
    link = PushPull(grid, patience=HANGS)

    def ask(*nodes):
        return {
            m.metadata.message_id: m.metadata.dst_node_id
            for m in link.push([message(node) for node in nodes])
        }

    out = ask(5, 6, 7)
    clock.now += 1
    # What was ready with it is gone with it; who still works is not touched.
    assert outcomes(link.pull(out)) == {"m0": "unreadable", "m1": "unreadable"}
    out = {"m2": 7} | ask(5, 6)
    clock.now += 1
    assert outcomes(link.pull(out)) == {"m3": "answered", "m4": "unreadable"}
    clock.now += 9
    assert outcomes(link.pull({"m2": 7})) == {"m2": "answered"}


def test_the_reason_is_told():
    _, grid = a_grid({5: 0})
    grid.garbage = {5}
    link = PushPull(grid, patience=HANGS)
    for _ in range(2):  # in a pull with others, then alone
        (sent,) = link.push([message(5)])
        (reply,) = link.pull({sent.metadata.message_id: 5})
        assert reply.error.reason == "ValueError: not an Array"
        assert reply.metadata.reply_to_message_id == sent.metadata.message_id


def test_the_end_of_the_run_is_not_taken_for_garbage():
    _, grid = a_grid({5: 0})
    link = PushPull(grid, patience=HANGS)
    (sent,) = link.push([message(5)])
    grid.broken = ConnectionError("the run has ended")
    with pytest.raises(ConnectionError):
        link.pull({sent.metadata.message_id: 5})


def test_an_upload_that_takes_long_holds_up_its_own_kind_only():
    _, grid = a_grid({5: 0, 6: 0, 7: 0})
    grid.uploading[7] = threading.Event()
    link = PushPull(grid, patience=0.05)
    out = {
        m.metadata.message_id: m.metadata.dst_node_id
        for m in link.push([message(node) for node in (5, 6, 7)])
    }
    came = {}
    while len(came) < 2:  # the others, at once or with one of the next calls
        came |= outcomes(link.pull({i: n for i, n in out.items() if i not in came}, slow={7}))
    assert came == {"m0": "answered", "m1": "answered"}
    for _ in range(3):
        assert link.pull({"m2": 7}, slow={7}) == []
    assert [ids for ids in grid.pulls if "m2" in ids] == [["m2"]], "never in two pulls at once"
    grid.uploading[7].set()
    until = time.monotonic() + HANGS
    replies = []
    while not replies and time.monotonic() < until:
        replies = link.pull({"m2": 7}, slow={7})
    assert outcomes(replies) == {"m2": "answered"}


class Upload(threading.Event):
    """An upload that takes longer than a stalled one, from when somebody waits for it."""

    def wait(self, timeout=None):
        if not self.is_set():
            time.sleep(0.1)
            self.set()
        return True


def test_who_blocked_a_pull_for_long_is_pulled_alone(monkeypatch):
    monkeypatch.setattr("unstale.flower.push_pull.STALLED", 0.05)
    _, grid = a_grid({5: 0, 6: None})
    grid.uploading[5] = Upload()
    link = PushPull(grid, patience=HANGS)
    link.push([message(5), message(6)])
    assert outcomes(link.pull({"m0": 5, "m1": 6})) == {"m0": "answered"}
    link.push([message(5)])
    assert outcomes(link.pull({"m1": 6, "m2": 5})) == {"m2": "answered"}
    assert sorted(grid.pulls[1:]) == [["m1"], ["m2"]]
