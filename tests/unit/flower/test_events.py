"""The event log: whole lines, numbered without a gap."""

import json

import pytest

from unstale.errors import RunError
from unstale.flower.events import EventLog


@pytest.fixture
def log(tmp_path):
    log = EventLog(tmp_path / "new" / "events.jsonl")
    log.append("started", version=0)
    log.append("accepted", node="7", reason="é \ud800\n\x1b")
    return log


def test_events_come_back_in_order(log):
    events = EventLog(log.path).load()
    assert [(e["seq"], e["event"]) for e in events] == [(0, "started"), (1, "accepted")]
    assert events[1]["reason"] == "é \ud800\n\x1b"
    assert all(e["time"] > 1e9 for e in events)


def test_a_torn_line_is_cut_and_the_sequence_goes_on(log):
    whole = log.path.read_bytes()
    log.append("version", version=1)
    torn = log.path.read_bytes()
    for length in range(len(whole) + 1, len(torn)):
        log.path.write_bytes(torn[:length])
        again = EventLog(log.path)
        assert len(again.load()) == 2
        assert log.path.read_bytes() == whole
    again.append("version", version=1)
    assert [json.loads(line)["seq"] for line in log.path.read_text().splitlines()] == [0, 1, 2]


@pytest.mark.parametrize("line", [b"{]", b"[]", b'{"seq": 5, "event": "x"}', b""])
def test_a_damaged_line_is_an_error(log, line):
    log.path.write_bytes(line + b"\n" + log.path.read_bytes())
    with pytest.raises(RunError, match="Line 1 of"):
        EventLog(log.path).load()


def test_no_file_is_no_event(tmp_path):
    log = EventLog(tmp_path / "none.jsonl")
    assert log.load() == []
    assert not log.path.exists()
