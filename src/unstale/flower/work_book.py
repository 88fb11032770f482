"""The book of open work: where every piece of training work stands.

```
stage        entered by   meaning
handed_out   hand_out     a node was chosen, and the server keeps the version for it
sent         send         the message is out
pulled       pull         a reply or an error is here, and nothing is decided
accepted     accept       the update was checked and is in the journal
given        give         the server has the update, for its next version
closed       close        refused, failed or lost; nobody waits for it any more
```

With the next version (`next_version`) what was given leaves the book. The server's own
record of open work (`Server.check_out`, `submit`, `release`) is changed from here only.
A `LateGrid` under another strategy, such as FedAvg, has no such server: then work leaves
the book when its reply comes out of the grid.
"""

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flwr.app import Message

from unstale.errors import ConfigError
from unstale.flower.journal import Entry, Key
from unstale.flower.messages import outcome_of
from unstale.flower.work import Arrival, Work, WorkTicket
from unstale.server import Server
from unstale.updates import Receipt

# Answered message ids that are remembered, to tell a repeated reply from an unknown one.
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Inherited:
    """Replies that a process accepted in a round before it died in it. Usually none."""

    answered: int = 0
    """Nodes that were asked in this round and have answered; they count as fast."""
    arrivals: int = 0
    """All replies that take part in it, late ones included."""


class WorkBook:
    """All open work of a `LateGrid`, and of the server of the run if there is one."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._server: Server | None = None
        self._by_message: dict[str, Work] = {}  # until the reply came out and was decided on
        self._by_key: dict[Key, Work] = {}  # of the server's run, in the order of changes
        self._answered: OrderedDict[str, None] = OrderedDict()

    # ---- messages and replies: what the grid asks and tells --------------------------

    def send(self, ticket: WorkTicket, delay: int) -> None:
        """Note a message that was sent, whose reply takes part `delay` rounds later."""
        work = self._by_key.get((str(ticket.node_id), ticket.version))
        if work is None or work.stage != "handed_out":
            work = Work(ticket.node_id, ticket.version, "sent")
        work.stage, work.ticket, work.in_grid = "sent", ticket, True
        work.not_before = ticket.round + delay
        self._by_message[ticket.message_id] = work

    def pull(self, reply: Message, now: float) -> Work | None:
        """Take in a reply; return None (and count) if no message is out that it answers."""
        message_id = reply.metadata.reply_to_message_id
        work = self._by_message.get(message_id)
        if work is None or work.ticket is None or work.stage != "sent":
            self.counts["repeated" if message_id in self._answered else "unknown"] += 1
            return None
        work.stage, work.reply, work.pulled_at = "pulled", reply, now
        self.counts[outcome_of(reply)] += 1
        if not work.has_answer:
            work.not_before = work.ticket.round  # an error need not be kept back
        self._answered[message_id] = None
        while len(self._answered) > _REMEMBERED:
            self._answered.popitem(last=False)
        return work

    def out(self) -> dict[str, int]:
        """Return the nodes whose messages are out, by message id."""
        return {i: w.node_id for i, w in self._by_message.items() if w.stage == "sent"}

    def delayed(self) -> set[str]:
        """Return the messages that are out and whose replies are kept back for some rounds."""
        return {i for i, w in self._by_message.items() if w.stage == "sent" and w.is_delayed}

    def is_empty(self) -> bool:
        """Return whether no message is out and no reply waits to come out."""
        return not any(work.in_grid for work in self._by_message.values())

    def could_come(self, round: int) -> list[Work]:
        """Return the messages that are out and whose replies may take part in that round."""
        return [w for w in self._by_message.values() if w.stage == "sent" and w.not_before <= round]

    def due(self, round: int) -> list[Work]:
        """Return the replies that come out in that round, by round of asking and by node."""
        due = [
            (work.ticket.round, work.node_id, work)
            for work in self._by_message.values()
            if work.in_grid and work.stage != "sent" and work.not_before <= round and work.ticket
        ]
        return [work for _, _, work in sorted(due, key=lambda found: found[:2])]

    def come_out(self, round: int) -> list[Arrival]:
        """Hand over the replies that take part in that round."""
        due = self.due(round)
        for work in due:
            work.in_grid = False
            if self._server is None or work.stage != "pulled":
                self._by_message.pop(work.message_id)
        return [work.arrival(round) for work in due]

    def working(self) -> dict[int, WorkTicket]:
        """Return the message of every node that works, emulated work included."""
        return {
            work.node_id: work.ticket
            for work in self._by_message.values()
            if work.in_grid and work.ticket and (work.stage == "sent" or work.is_delayed)
        }

    # ---- updates and versions: what the intake tells, and the cohort asks -------------

    @property
    def server(self) -> Server:
        """The server whose open work this is."""
        if self._server is None:
            raise ConfigError("A book of work should be opened for a server first: `begin`.")
        return self._server

    def begin(self, server: Server) -> None:
        """Keep this book for a server from now on.

        A grid may outlive a run: its messages and replies stay, but what was decided on them
        is forgotten, since the server may have been restored to a time before.
        """
        self._server = server
        self._by_key = {}
        self._by_message = {i: work for i, work in self._by_message.items() if work.in_grid}
        for work in self._by_message.values():
            work.stage = "sent" if work.reply is None else "pulled"
            work.entry, work.keeps_version = None, False

    def hand_out(self, node: int) -> int:
        """Note that a node is to train on the current version, and return that version."""
        version, _ = self.server.check_out(str(node))
        work = Work(node, version, "handed_out", keeps_version=True)
        self._by_key[work.key] = work
        return version

    def undecided(self, ticket: WorkTicket) -> Work | None:
        """Return the work that a reply answers, None if that reply was decided on before."""
        work = self._by_message.get(ticket.message_id)
        if work is None or work.stage != "pulled":
            return None
        other = self._by_key.get(work.key)
        if other is not None and other is not work and other.entry is not None:
            # Accepted in an earlier run of a grid that outlived it: the journal has it.
            self._forget(work)
            return None
        return work

    def accept(self, work: Work, entry: Entry) -> None:
        """Note that a reply was checked and written down."""
        work.stage, work.entry = "accepted", entry
        self._forget(work)
        self._by_key.pop(work.key, None)
        self._by_key[work.key] = work

    def resume(self, entries: Sequence[Entry], kept: Mapping[str, int]) -> None:
        """Take over the work of a process that died.

        Args:
            entries: The updates that it accepted and the server has not been given.
            kept: The versions that the server keeps, by node. Where no update is here its
                work is lost, and the server no longer keeps the version for it.
        """
        for entry in entries:
            node, version = entry.key
            if version == self.server.version:  # asked after the checkpoint was written
                self.server.check_out(node)
            self._by_key[entry.key] = Work(
                int(node), version, "accepted", entry=entry, keeps_version=True, inherited=True
            )
        for node, version in kept.items():
            if (node, version) not in self._by_key:
                self.server.release(node, version)

    def accepted(self, round: int) -> list[Work]:
        """Return the accepted updates that take part in a round, in the order of acceptance."""
        return [
            w
            for w in self._by_key.values()
            if w.stage == "accepted" and w.entry and w.entry.due <= round
        ]

    def give(self, work: Work) -> Receipt:
        """Submit an accepted update to the server; if it is refused, the work is closed."""
        if work.entry is None:
            raise ValueError("Only accepted work can be given to the server.")
        # An inherited update comes from the disk; its limits may have changed since.
        receipt = self.server.submit(work.entry.update, checked=not work.inherited)
        if not receipt.accepted:
            self.close(work)
            return receipt
        work.stage, work.keeps_version = "given", False
        self._by_key.pop(work.key)
        self._by_key[work.key] = work
        return receipt

    def close(self, work: Work) -> None:
        """Stop waiting for a piece of work: it was refused, failed or got lost."""
        self.server.release(*work.key)
        work.stage, work.keeps_version = "closed", False
        self._forget(work)
        if self._by_key.get(work.key) is work:
            del self._by_key[work.key]

    def close_unsent(self) -> list[int]:
        """Close what was handed out and could not be sent, and return the nodes.

        They were busy, or the SuperLink refused the message, as it does if a node has left.
        """
        unsent = [w for w in self._by_key.values() if w.stage == "handed_out"]
        for work in unsent:
            self.close(work)
        return [work.node_id for work in unsent]

    def given(self) -> list[Entry]:
        """Return the updates given to the server since its last version, in that order."""
        return [w.entry for w in self._by_key.values() if w.stage == "given" and w.entry]

    def is_missing_fresh(self) -> bool:
        """Return whether nodes still train the current version and none has answered on it."""
        current = self.server.version
        answered = any(entry.update.base_version == current for entry in self.given())
        waited_for = (w for w in self._by_message.values() if w.in_grid and w.stage == "sent")
        return not answered and any(
            w.ticket is not None and w.ticket.version == current and not w.is_delayed
            for w in waited_for
        )

    def next_version(self) -> None:
        """Strike out what was given: it is the server's now."""
        self._by_key = {key: w for key, w in self._by_key.items() if w.stage != "given"}

    def kept_versions(self) -> dict[str, int]:
        """Return for which nodes the server keeps which version."""
        return {w.key[0]: w.version for w in self._by_key.values() if w.keeps_version}

    def asked(self) -> set[int]:
        """Return the nodes that were asked to train on the current version.

        When a round begins there are none, unless a process died or failed in that round.
        """
        current = self.server.version
        answered = {w.node_id for w in self._by_key.values() if w.entry and w.version == current}
        return answered | {n for n, ticket in self.working().items() if ticket.version == current}

    def occupied(self, round: int) -> set[int]:
        """Return the nodes whose update is here and which are therefore not asked in a round."""
        return {w.node_id for w in self._by_key.values() if w.entry and w.entry.idle_from > round}

    def inherited(self, round: int) -> Inherited:
        """Return what a round has of a process that died in it."""
        due = [work for work in self.accepted(round) if work.inherited]
        return Inherited(sum(w.version == self.server.version for w in due), len(due))

    def inherited_entries(self) -> list[Entry]:
        """Return the updates that a process accepted before it died and that are still here."""
        return [w.entry for w in self._by_key.values() if w.inherited and w.entry]

    def _forget(self, work: Work) -> None:
        """Strike a decided piece of work out of the grid's part, once its reply came out."""
        if not work.in_grid:
            self._by_message.pop(work.message_id, None)
