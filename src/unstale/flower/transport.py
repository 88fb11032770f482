"""Transport: messages to idle nodes, and replies matched to what they answer."""

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager

from flwr.app import Message
from flwr.serverapp import Grid

from unstale.flower.messages import delay_of, time_to_live, version_of
from unstale.flower.push_pull import PushPull
from unstale.flower.waiting import Clock
from unstale.flower.work import Work, WorkTicket
from unstale.flower.work_book import WorkBook

_LOG = logging.getLogger(__name__)


class Transport:
    """All messages that are out, for training and for queries, and the replies to them.

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
        book: WorkBook,
        *,
        longest_lateness: float | None,
        delay: Callable[[int], int] | None,
        clock: Clock,
    ) -> None:
        self.unread: deque[Work] = deque()  # replies to training not yet passed to `on_reply`
        self._grid = PushPull(grid)
        self._book = book
        self._queries = PendingQueries()
        self._ttl = time_to_live(longest_lateness)
        self._delay = delay
        self._clock = clock

    @property
    def counts(self) -> Counter[str]:
        """Replies by outcome, and everything that was dropped or refused."""
        return self._book.counts + self._queries.counts

    def busy_nodes(self) -> set[int]:
        """Return the nodes that train or have a query to answer."""
        return self._book.working().keys() | set(self._queries.out.values())

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
            self._book.send(ticket, delay)
            tickets.append(ticket)
        return tickets, not_asked

    def send_queries(self, messages: Iterable[Message]) -> AbstractContextManager["QueryReplies"]:
        """Send evaluations or queries to idle nodes; their replies count within the context."""
        sent, _ = self._send_to_idle(messages)
        return self._queries.awaiting(sent)

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
        sent = self._grid.push(idle)
        refused = {m.metadata.dst_node_id for m in idle} - {m.metadata.dst_node_id for m in sent}
        if refused:
            self._book.counts["refused"] += len(refused)
            _LOG.warning("The SuperLink refused messages to nodes %s.", sorted(refused))
        return sent, not_asked | dict.fromkeys(sorted(refused), "refused")

    def pull(self, slow: AbstractSet[int]) -> None:
        """Take in every reply that is there; those to training with content are then unread.

        Args:
            slow: Nodes that rounds do not wait for; they are pulled apart from the others.
        """
        out = {**self._book.out(), **self._queries.out}
        if not out:
            return
        now = self._clock.monotonic()
        for reply in self._grid.pull(out, slow):
            if self._queries.take(reply):
                continue
            work = self._book.pull(reply, now)
            if work is None:
                _LOG.warning(
                    "Dropped a reply to message %r, which nobody waits for.",
                    reply.metadata.reply_to_message_id,
                )
            elif work.has_answer:
                self.unread.append(work)


class QueryReplies:
    """The replies to one set of queries, as they come in."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.replies: list[Message] = []
        self._missing = {message.metadata.message_id for message in messages}

    @property
    def num_missing(self) -> int:
        """How many have not come yet."""
        return len(self._missing)

    def take(self, reply: Message) -> bool:
        """Keep a reply if it is one of these; return whether it is."""
        message_id = reply.metadata.reply_to_message_id
        if message_id not in self._missing:
            return False
        self._missing.remove(message_id)
        self.replies.append(reply)
        return True


class PendingQueries:
    """Evaluations and queries that are out; their replies count only while one waits for them."""

    def __init__(self) -> None:
        self.out: dict[str, int] = {}
        self.counts: Counter[str] = Counter()
        self._awaited = QueryReplies([])

    @contextmanager
    def awaiting(self, messages: Sequence[Message]) -> Iterator[QueryReplies]:
        """Collect the replies to messages just sent; those that come afterwards are overdue."""
        self.out.update({m.metadata.message_id: m.metadata.dst_node_id for m in messages})
        self._awaited = QueryReplies(messages)
        try:
            yield self._awaited
        finally:
            self._awaited = QueryReplies([])

    def take(self, reply: Message) -> bool:
        """Take a reply if it answers a query; return whether it does."""
        if self.out.pop(reply.metadata.reply_to_message_id, None) is None:
            return False
        if not self._awaited.take(reply):
            self.counts["overdue"] += 1
        return True
