"""A Grid in memory that behaves as Flower's does, on a clock that tests move."""

from dataclasses import dataclass

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Error, Message, Metadata, MetricRecord, RecordDict
from flwr.serverapp import Grid

SUPERLINK = 1
BIG = 2**63  # node ids are unsigned 64-bit numbers; half of them do not fit into a signed one


class PretendClock:
    """Time passes only while somebody sleeps."""

    def __init__(self):
        self.now = 1000.0
        self.pauses = []
        self.alarms = []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.pauses.append(seconds)
        assert len(self.pauses) < 3000, "it waits for ever"
        self.now += seconds
        for alarm in [a for a in self.alarms if a[0] <= self.now]:
            self.alarms.remove(alarm)
            alarm[1]()

    def at(self, seconds, action):
        """Do something once that many seconds from now have passed."""
        self.alarms.append((self.now + seconds, action))


def message(node, kind="train", version=None, ttl=43_200.0):
    """As a strategy makes them, without the run that `Message(...)` asks for."""
    content = RecordDict({"arrays": ArrayRecord([np.zeros(2, dtype=np.float32)])})
    if version is not None:
        content["unstale"] = ConfigRecord({"unstale-version": version})
    metadata = Metadata(
        run_id=7,
        message_id="",
        src_node_id=SUPERLINK,
        dst_node_id=node,
        reply_to_message_id="",
        group_id="",
        created_at=0.0,
        ttl=ttl,
        message_type=kind,
    )
    return Message(metadata=metadata, content=content)


def reply_to(asked, *, code=None, answer=None):
    metadata = Metadata(
        run_id=7,
        message_id=f"reply to {asked.metadata.message_id}",
        src_node_id=asked.metadata.dst_node_id if code in (None, 2, 8) else SUPERLINK,
        dst_node_id=SUPERLINK,
        reply_to_message_id=asked.metadata.message_id,
        group_id="",
        created_at=1.0,
        ttl=1.0,
        message_type=asked.metadata.message_type,
    )
    if code is not None:
        return Message(metadata=metadata, error=Error(code, "a reason"))
    metrics = MetricRecord({"num-examples": 3, "answer": answer or 0})
    return Message(metadata=metadata, content=RecordDict({"metrics": metrics}))


@dataclass
class Work:
    """A message in the SuperLink, and what will come of it."""

    message: Message
    ready_at: float
    expires_at: float
    code: int | None
    garbage: bool


class PretendGrid(Grid):
    """Nodes take some seconds per message; a pull takes what is ready out of the SuperLink.

    Args:
        clock: A PretendClock.
        seconds: How long each node takes; None for ever. May be changed at any time.
        refused_as: What the ids of refused messages look like: "" as over HTTP, or nothing.
    """

    def __init__(self, clock, seconds, refused_as=""):
        self.clock = clock
        self.seconds = dict(seconds)
        self.refused_as = refused_as
        self.offline = set()
        self.unknown = set()  # still listed, but the SuperLink refuses messages to them
        self.codes = {}  # error codes that nodes reply with
        self.garbage = set()  # nodes whose replies do not decode
        self.twice = set()  # nodes whose replies come twice in one pull
        self.stray = []  # replies that nobody asked for
        self.uploading = {}  # nodes whose replies block a pull until an event is set
        self.broken = None
        self.work = {}
        self.pushed = []
        self.pulls = []
        self.ended = {}

    def set_run(self, run):
        self.run_was = run

    @property
    def run(self):
        return self.run_was

    def create_message(self, content, message_type, dst_node_id, group_id, ttl=None):
        return ("made", content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self):
        if self.broken:
            raise self.broken
        return {node for node in self.seconds if node not in self.offline}

    def push_messages(self, messages):
        ids = []
        for sent in messages:
            node = sent.metadata.dst_node_id
            assert type(node) is int
            busy = [w for w in self.work.values() if w.message.metadata.dst_node_id == node]
            assert not busy, "a node handles one message at a time"
            if node in self.unknown or node not in self.seconds:
                if self.refused_as is not None:
                    ids.append(self.refused_as)
                continue
            message_id = f"m{len(self.pushed)}"
            sent.metadata.__dict__["_message_id"] = message_id
            self.pushed.append(sent)
            takes = self.seconds[node]
            now = self.clock.now
            self.work[message_id] = Work(
                sent,
                float("inf") if takes is None else now + takes,
                now + sent.metadata.ttl,
                self.codes.get(node),
                node in self.garbage,
            )
            ids.append(message_id)
        return ids

    def pull_messages(self, message_ids):
        ids = list(message_ids)
        self.pulls.append(ids)
        if self.broken:
            raise self.broken
        replies, fault = [*self.stray], None
        self.stray = []
        for message_id in ids:
            work = self.work.get(message_id)
            if work and self.clock.now >= work.ready_at:
                event = self.uploading.get(work.message.metadata.dst_node_id)
                assert event is None or event.wait(600), "the test lets go of every upload"
            if work is None or self.clock.now >= work.expires_at:
                gone = message(SUPERLINK)
                gone.metadata.__dict__["_message_id"] = message_id
                replies.append(reply_to(gone, code=3))
            elif (node := work.message.metadata.dst_node_id) in self.offline:
                replies.append(reply_to(work.message, code=5))
            elif self.clock.now >= work.ready_at:
                fault = fault or (ValueError("not an Array") if work.garbage else None)
                replies.append(reply_to(work.message, code=work.code, answer=node % 1000))
                if node in self.twice:
                    replies.append(replies[-1])
            else:
                continue
            self.work.pop(message_id, None)
        if fault:
            raise fault  # all of this pull are gone
        return replies

    def send_and_receive(self, messages, *, timeout=None):
        raise AssertionError("a LateGrid sends and receives by itself")
