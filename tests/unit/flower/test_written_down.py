"""Rounds are written down while nodes work on the next one, and before anything is decided."""

import json
import os

import pytest
from late_grid_world import A, B, train, world
from pretend_clients import ClientsGrid, honest, late_grid, small_model
from pretend_grid import PretendClock

from unstale.flower import Cohort, LateGrid, Unstale
from unstale.flower.events import EventLog
from unstale.server.checkpoint import Checkpoints

pytestmark = pytest.mark.usefixtures("in_a_run")

NODES = (3, 4, 5)


def events_of(folder):
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def versions_of(folder):
    return [e["version"] for e in events_of(folder) if e["event"] == "version"]


def strategy(folder):
    return Unstale(small_model(), "unweighted", folder=folder, cohort=Cohort(min_available_nodes=3))


class WatchedGrid(ClientsGrid):
    """Notes which versions were written down when messages went out and replies were made."""

    def __init__(self, folder, seconds):
        super().__init__(PretendClock(), seconds, dict.fromkeys(NODES, self.answer))
        self.folder = folder
        self.when_pushed = []
        self.when_answered = []

    def push_messages(self, messages):
        self.when_pushed.append(versions_of(self.folder))
        return super().push_messages(messages)

    def answer(self, message):
        self.when_answered.append(versions_of(self.folder))
        return honest(message)


def test_messages_do_not_wait_for_the_disk_and_replies_do(tmp_path):
    grid = WatchedGrid(tmp_path, dict.fromkeys(NODES, 1.0))
    strategy(tmp_path).start(LateGrid(grid, clock=grid.clock), num_rounds=3)
    assert grid.when_pushed == [[], [], [1]]
    assert grid.when_answered == [[]] * 3 + [[1]] * 3 + [[1, 2]] * 3
    assert versions_of(tmp_path) == [1, 2, 3]


def test_a_reply_that_is_there_at_once_is_accepted_after_its_version_is_written(tmp_path):
    grid = ClientsGrid(PretendClock(), dict.fromkeys(NODES, 0.0))
    strategy(tmp_path).start(LateGrid(grid, clock=grid.clock), num_rounds=3)
    written = 0
    for event in events_of(tmp_path):
        if event["event"] == "version":
            written = event["version"]
        if event["event"] == "accepted":
            assert event["base_version"] == written


def test_a_round_is_written_down_before_a_wait_for_nodes(tmp_path):
    grid = late_grid(dict.fromkeys(NODES, 1.0))
    clock, below = grid.clock, grid.below
    found = []

    def leave(version, arrays):
        if version == 1:
            below.offline = {5}
            clock.at(20.0, lambda: found.append(versions_of(tmp_path)))
            clock.at(40.0, below.offline.clear)

    strategy(tmp_path).start(grid, num_rounds=2, evaluate_fn=leave)
    assert found == [[1]]


def test_a_round_is_written_down_also_if_the_next_cannot_begin(tmp_path):
    grid = late_grid(dict.fromkeys(NODES, 1.0))

    def break_off(version, arrays):
        if version == 2:
            grid.below.broken = ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        strategy(tmp_path).start(grid, num_rounds=5, evaluate_fn=break_off)
    assert versions_of(tmp_path) == [1, 2]


def test_what_could_not_be_written_is_not_tried_again(tmp_path, monkeypatch):
    it, tries = strategy(tmp_path), []

    def full(*_):
        tries.append(1)
        raise OSError("no space left")

    def fill(version, arrays):
        if version == 1:
            monkeypatch.setattr("unstale.server.checkpoint.Checkpoints.write", full)

    with pytest.raises(OSError, match="no space"):
        it.start(late_grid(dict.fromkeys(NODES, 1.0)), num_rounds=5, evaluate_fn=fill)
    assert len(tries) == 1
    monkeypatch.undo()
    it.start(late_grid(dict.fromkeys(NODES, 1.0)), num_rounds=3, resume=True)
    assert versions_of(tmp_path) == [1, 2, 3]


def test_a_grid_calls_before_every_pause_and_after_messages_went_out():
    found = []
    clock, grid, late = world(
        {A: 1, B: 1}, before_pause=lambda: found.append((len(grid.pushed), len(clock.pauses)))
    )
    train(late, A, B)
    assert found == [(2, number) for number in range(len(clock.pauses))]


def test_a_line_need_not_be_on_the_disk_at_once(tmp_path, monkeypatch):
    log, synced = EventLog(tmp_path / "events.jsonl"), []
    monkeypatch.setattr("os.fsync", lambda handle: synced.append(log.path.read_bytes()))
    log.append("accepted", synced=False, node="3")
    assert synced == []
    log.sync()
    assert synced == [log.path.read_bytes()]
    log.append("version", version=1)
    assert len(synced) == 2
    assert [e["seq"] for e in EventLog(log.path).load()] == [0, 1]


def test_a_checkpoint_counts_only_on_events_that_are_on_the_disk(tmp_path, monkeypatch):
    path, synced, checked = tmp_path / "events.jsonl", [b""], []
    real = Checkpoints.write

    def sync(handle):
        if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
            synced.append(path.read_bytes())

    def write(self, tree, versions):
        checked.append(tree["flower"]["events"])
        assert synced[-1].count(b"\n") == tree["flower"]["events"]
        return real(self, tree, versions)

    monkeypatch.setattr("os.fsync", sync)
    monkeypatch.setattr(Checkpoints, "write", write)
    strategy(tmp_path).start(late_grid(dict.fromkeys(NODES, 1.0)), num_rounds=3)
    assert checked == [0, 4, 8, 12]
