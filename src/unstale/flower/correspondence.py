"""Messages to idle nodes, and the replies to them: each matched to what it answers."""

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager

from flwr.app import Message
from flwr.serverapp import Grid

from unstale.flower.errands import AwaitedReplies, Errands
from unstale.flower.mailbox import Mailbox
from unstale.flower.waiting import Clock
from unstale.flower.work_messages import delay_of, time_to_live, version_of
from unstale.flower.work_tickets import Pulled, TicketBook, WorkTicket

_LOG = logging.getLogger(__name__)


class Correspondence:
    """All messages that are out, for training and errands, and the replies to them.

    Args:
        grid: The Grid below.
        book: Where training messages and their replies are noted.
        longest_lateness: Seconds within which training must be answered; None for no limit.
        delay: Emulated lateness by node, in rounds.
        clock: What tells the time.
    """

    def __init__(
        self,
        grid: Grid,
        book: TicketBook,
        *,
        longest_lateness: float | None,
        delay: Callable[[int], int] | None,
        clock: Clock,
    ) -> None:
        self.unread: deque[Pulled] = deque()  # answers that nobody was told of yet
        self._mailbox = Mailbox(grid)
        self._book = book
        self._errands = Errands()
        self._ttl = time_to_live(longest_lateness)
        self._delay = delay
        self._clock = clock

    @property
    def counts(self) -> Counter[str]:
        """Replies by outcome and everything that was dropped or refused."""
        return self._book.counts + self._errands.counts

    def busy_nodes(self) -> set[int]:
        """Return the nodes that have something to do."""
        return self._book.working().keys() | set(self._errands.out.values())

    def send_work(
        self, messages: Iterable[Message], round: int
    ) -> tuple[list[WorkTicket], dict[int, str]]:
        """Send training to idle nodes.

        Returns:
            The tickets of what was sent; which nodes were not asked, and why.
        """
        terms: dict[int, tuple[int, int]] = {}

        def prepare(message: Message) -> None:
            node = message.metadata.dst_node_id
            message.metadata.ttl = self._ttl
            # A strategy that keeps no versions makes one in every round.
            version = version_of(message, default=round - 1)
            terms[node] = version, delay_of(node, self._delay)

        sent, not_asked = self._send_to_idle(messages, prepare)
        now = self._clock.monotonic()
        tickets = []
        for message in sent:
            node = message.metadata.dst_node_id
            version, delay = terms[node]
            ticket = WorkTicket(message.metadata.message_id, node, version, round, now)
            self._book.open(ticket, delay)
            tickets.append(ticket)
        return tickets, not_asked

    def send_errands(self, messages: Iterable[Message]) -> AbstractContextManager[AwaitedReplies]:
        """Send evaluations or queries to idle nodes; their replies count within the context."""
        sent, _ = self._send_to_idle(messages)
        return self._errands.awaiting(sent)

    def _send_to_idle(
        self, messages: Iterable[Message], prepare: Callable[[Message], None] = lambda _: None
    ) -> tuple[list[Message], dict[int, str]]:
        """Return what was sent, and which nodes were not asked and why."""
        busy, not_asked, idle = self.busy_nodes(), dict[int, str](), list[Message]()
        for message in messages:
            node = message.metadata.dst_node_id
            if node in busy:
                not_asked.setdefault(node, "busy")
                continue
            idle.append(message)
            busy.add(node)  # a second message to it would find it working
        for message in idle:  # before any is sent: what raises here leaves nothing behind
            prepare(message)
        sent = self._mailbox.push(idle)
        refused = {m.metadata.dst_node_id for m in idle} - {m.metadata.dst_node_id for m in sent}
        if refused:
            self._book.counts["refused"] += len(refused)
            _LOG.warning("The SuperLink refused messages to nodes %s.", sorted(refused))
        return sent, not_asked | dict.fromkeys(sorted(refused), "refused")

    def pull(self, slow: AbstractSet[int]) -> None:
        """Take in every reply that is there; those to training with content are unread then.

        Args:
            slow: Nodes for which nobody waits.
        """
        out = {i: ticket.node_id for i, ticket in self._book.out.items()}
        out.update(self._errands.out)
        if not out:
            return
        now = self._clock.monotonic()
        for reply in self._mailbox.pull(out, slow):
            if self._errands.take(reply):
                continue
            pulled = self._book.take(reply, now)
            if pulled is None:
                _LOG.warning(
                    "Dropped a reply to message %r, which nobody waits for.",
                    reply.metadata.reply_to_message_id,
                )
            elif pulled.has_answer:
                self.unread.append(pulled)
