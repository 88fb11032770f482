"""The intake: a reply is decoded, checked and written down once, and then given to the server."""

import logging
from collections.abc import Sequence

from unstale.flower.arrays import RefusedReplyError
from unstale.flower.decode import ReplyForm, decode
from unstale.flower.journal import Entry, Key
from unstale.flower.ledger import Ledger, Restored
from unstale.flower.round_line import Refusal, printable
from unstale.flower.work import Arrival, Work
from unstale.flower.work_book import WorkBook
from unstale.params import subtract, to_device
from unstale.server import Server
from unstale.server.checks import shown
from unstale.updates import Update

logger = logging.getLogger(__name__)


class Intake:
    """Decides on replies; where each piece of work stands is in the book.

    Args:
        server: The server of the run.
        book: The book of open work, begun for that server.
        form: What a reply should look like.
        ledger: Where decisions are written down.
    """

    def __init__(self, server: Server, book: WorkBook, form: ReplyForm, ledger: Ledger) -> None:
        self.refused: list[Refusal] = []  # replies refused and work failed since the last version
        self.lost: list[Key] = []  # accepted updates that could not be used, since then
        self._server = server
        self._book = book
        self._form = form
        self._ledger = ledger

    def take(self, arrival: Arrival, *, was_drawn: bool = True) -> None:
        """Decode, check and write down a reply; a second look at the same one does nothing.

        Args:
            arrival: The reply.
            was_drawn: Whether the cohort of the round in which it takes part has been drawn.
                Otherwise its node may be asked in that round.
        """
        work = self._book.undecided(arrival.ticket)
        if work is None:
            return
        try:
            idle_at_once = not was_drawn and not work.is_delayed
            entry = self._checked(arrival, idle_at_once=idle_at_once)
        except RefusedReplyError as error:
            self._close(work, arrival, "refused", error.code, error.reason)
        else:
            # If writing fails, nothing is decided and the same reply is tried again.
            self._ledger.accept(entry)
            self._book.accept(work, entry)

    def _checked(self, arrival: Arrival, *, idle_at_once: bool) -> Entry:
        ticket, message = arrival.ticket, arrival.message
        node = str(ticket.node_id)
        if message.metadata.src_node_id != ticket.node_id:
            raise RefusedReplyError(
                "node",
                f"A reply should come from the node that was asked, {node}. "
                f"Found {shown(message.metadata.src_node_id)}.",
            )
        reply = decode(message.content, self._form, version=ticket.version)
        base = self._server.weights_of(ticket.version)
        if base is None:
            raise RefusedReplyError(
                "forgotten",
                f"The version of a reply should still be kept. {ticket.version} is not. Raise "
                "`max_versions` of the history to allow for more lateness.",
            )
        device = next(iter(base.values())).device
        delta = subtract(to_device(reply.weights, device), base)
        update = Update(node, ticket.version, delta, reply.num_examples)
        receipt = self._server.check(update)
        if not receipt.accepted:
            raise RefusedReplyError(receipt.code, receipt.reason)
        due = ticket.round + arrival.rounds_late
        idle_from = due if idle_at_once else due + 1
        return Entry(
            update, ticket.round, due, idle_from, arrival.seconds, reply.metrics, reply.records
        )

    def _fail(self, arrival: Arrival) -> None:
        """Note that a node's work came to nothing."""
        work, message = self._book.undecided(arrival.ticket), arrival.message
        reason = message.error.reason if message.has_error() else "neither content nor error"
        if work is not None:
            self._close(work, arrival, "failed", arrival.outcome, str(reason))

    def _close(self, work: Work, arrival: Arrival, event: str, code: str, reason: str) -> None:
        node, reason = work.key[0], printable(reason, 300)
        self._ledger.note(
            event,
            node=node,
            base_version=work.version,
            sent_in_round=arrival.ticket.round,
            code=code,
            reason=reason,
        )
        self.refused.append((node, code, reason))
        self._book.close(work)

    def come_out(self, arrivals: Sequence[Arrival]) -> None:
        """Take in what came out of the grid and was not decided yet, errors included."""
        for arrival in arrivals:
            if arrival.outcome == "answered":
                self.take(arrival)
            else:
                self._fail(arrival)

    def submit_due(self, round: int) -> None:
        """Give the server the accepted updates that take part in a round."""
        for work in self._book.accepted(round):
            receipt = self._book.give(work)
            if not receipt.accepted:  # it was checked before, so this is a fault of ours
                self._lose(work.key, receipt.reason)

    def _lose(self, key: Key, reason: str) -> None:
        logger.error("An accepted update of node %s is lost: %s", key[0], reason)
        self._ledger.note("lost", node=key[0], base_version=key[1], reason=reason)
        self.lost.append(key)

    def resume(self, restored: Restored) -> None:
        """Take over the accepted updates of a process that died."""
        usable = []
        for entry in restored.entries:
            if entry.key[1] > self._server.version:
                self._lose(entry.key, "its version went with a damaged checkpoint")
            else:
                usable.append(entry)
        self._book.resume(usable, restored.out)

    def next_version(self) -> None:
        """Begin to note anew what is refused and lost."""
        self._book.next_version()
        self.refused, self.lost = [], []
