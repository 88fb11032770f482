"""From a reply to an accepted update: decoded, checked, written down, given to the server."""

import logging
from collections.abc import Collection, Sequence

from unstale.flower.admission import Admission
from unstale.flower.closed_round import Before
from unstale.flower.decode import RefusedReplyError, decode
from unstale.flower.journal import Entry, Key
from unstale.flower.layout import Layout
from unstale.flower.ledger import Ledger, Restored
from unstale.flower.round_line import Refusal, printable
from unstale.flower.work_tickets import Arrival
from unstale.params import subtract, to_device
from unstale.server import Server
from unstale.server.checks import check_update, shown
from unstale.updates import Update

logger = logging.getLogger(__name__)


class Intake:
    """Everything between Flower's replies and the server's pending updates."""

    def __init__(
        self, server: Server, layout: Layout, ledger: Ledger, admission: Admission
    ) -> None:
        self._server = server
        self._layout = layout
        self._ledger = ledger
        self._admission = admission
        self.held: dict[Key, Entry] = {}  # accepted, not yet given to the server
        self.taken: list[Entry] = []  # given to it since the last version
        self.given_up: list[Key] = []  # decided on otherwise since then
        self.refused: list[Refusal] = []  # since the last version
        self.out: dict[str, int] = {}  # who works on which version
        self._seen: set[str] = set()
        self._inherited: set[Key] = set()  # accepted by a process that died

    def hand_out(self, node: int) -> int:
        """Note that a node is set to work, and return the version it gets."""
        version, _ = self._server.check_out(str(node))
        self.out[str(node)] = version
        return version

    def take(self, arrival: Arrival) -> None:
        """Decode, check and write down a reply; a second look at the same one does nothing."""
        ticket = arrival.ticket
        key = str(ticket.node_id), ticket.version
        here = key in self.held or any(entry.key == key for entry in self.taken)
        # Here without being seen: a grid that outlived an earlier start of the same run.
        if ticket.message_id in self._seen or here:
            return
        try:
            entry = self._checked(arrival)
        except RefusedReplyError as error:
            self._drop(arrival, "refused", error.code, error.reason)
        else:
            self._ledger.accept(entry)
            self.held[entry.key] = entry
        # Only now: if writing failed, the same reply is tried again.
        self._seen.add(ticket.message_id)

    def _checked(self, arrival: Arrival) -> Entry:
        ticket, message = arrival.ticket, arrival.message
        node = str(ticket.node_id)
        if message.metadata.src_node_id != ticket.node_id:
            raise RefusedReplyError(
                "node",
                f"A reply should come from the node that was asked, {node}. "
                f"Found {shown(message.metadata.src_node_id)}.",
            )
        reply = decode(
            message.content,
            self._layout,
            version=ticket.version,
            max_bytes=self._admission.max_bytes,
            examples_key=self._admission.examples_key,
        )
        base = self._server.weights_of(ticket.version)
        current = self._server.weights_of(self._server.version)
        if base is None or current is None:
            raise RefusedReplyError(
                "forgotten",
                f"The version of a reply should still be kept. {ticket.version} is not. Raise "
                "`max_versions` of the history to allow for more lateness.",
            )
        device = next(iter(base.values())).device
        delta = subtract(to_device(reply.weights, device), base)
        update = Update(node, ticket.version, delta, reply.num_examples)
        receipt = check_update(update, current, self._server.version, self._server.limits)
        if receipt is not None:
            raise RefusedReplyError(receipt.code, receipt.reason)
        due = ticket.round + arrival.rounds_late
        return Entry(update, ticket.round, due, arrival.seconds, reply.metrics)

    def fail(self, arrival: Arrival) -> None:
        """Note that a node's work came to nothing."""
        message = arrival.message
        reason = message.error.reason if message.has_error() else "neither content nor error"
        self._drop(arrival, "failed", arrival.outcome, str(reason))

    def _drop(self, arrival: Arrival, event: str, code: str, reason: str) -> None:
        ticket = arrival.ticket
        node, reason = str(ticket.node_id), printable(reason, 300)
        self._ledger.note(
            event,
            node=node,
            base_version=ticket.version,
            sent_in_round=ticket.round,
            code=code,
            reason=reason,
        )
        self.refused.append((node, code, reason))
        self._release(node, ticket.version)

    def _release(self, node: str, version: int) -> None:
        self._server.release(node, version)
        if self.out.get(node) == version:
            del self.out[node]

    def come_out(self, arrivals: Sequence[Arrival]) -> None:
        """Take in what came out of the grid and was not seen yet, errors included."""
        for arrival in arrivals:
            if arrival.outcome == "answered":
                self.take(arrival)
            else:
                self.fail(arrival)
        # They cannot come again.
        self._seen.difference_update(arrival.ticket.message_id for arrival in arrivals)

    def submit_due(self, round: int) -> None:
        """Give the server what may take part in a round."""
        for key in [key for key, entry in self.held.items() if entry.due <= round]:
            entry = self.held[key]
            receipt = self._server.submit(entry.update)
            del self.held[key]
            self._release(*key)
            if receipt.accepted:
                self.taken.append(entry)
            else:  # it was checked before, so this is a fault of ours
                self._give_up(key, receipt.reason)

    def _give_up(self, key: Key, reason: str) -> None:
        logger.error("An accepted update of node %s is lost: %s", key[0], reason)
        self._ledger.note("lost", node=key[0], base_version=key[1], reason=reason)
        self.given_up.append(key)

    def release_all_but(self, working: Collection[int]) -> None:
        """Stop waiting for nodes that do not work (any more) and whose update is not here."""
        for node, version in list(self.out.items()):
            if int(node) not in working and (node, version) not in self.held:
                self._release(node, version)

    def occupied(self, round: int) -> set[int]:
        """Return the nodes not to be asked in a round, for what a resumed run has of them.

        They have answered the current version already, or their emulated lateness lasts.
        """
        version = self._server.version
        here = [*self.taken, *self.held.values()]
        return {int(e.key[0]) for e in here if e.key[1] == version or e.due > round}

    def inherited(self, round: int) -> Before:
        """Return what a round has of a process that died in it."""
        due = [e for key, e in self.held.items() if key in self._inherited and e.due <= round]
        return Before(sum(e.key[1] == self._server.version for e in due), len(due))

    def adopt(self, restored: Restored) -> None:
        """Take over what a run left: its accepted updates; its open work is given up."""
        version = self._server.version
        for entry in restored.entries:
            node, base = entry.key
            if base > version:
                self._give_up(entry.key, "its version went with a damaged checkpoint")
                continue
            if base == version:  # asked after the checkpoint was written
                self._server.check_out(node)
            self.out[node] = base
            self.held[entry.key] = entry
            self._inherited.add(entry.key)
        for node, base in restored.out.items():
            if (node, base) not in self.held:
                self._server.release(node, base)

    def next_version(self) -> None:
        """Begin anew to note what is taken and refused."""
        self.taken, self.refused, self.given_up = [], [], []
