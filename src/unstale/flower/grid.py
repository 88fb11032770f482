"""A Grid whose rounds do not wait for slow nodes, and whose late replies are not lost.

`Strategy.start` of Flower waits in `send_and_receive` until all nodes have answered or a
timeout has passed, and drops what comes later. `LateGrid` wraps any Grid so that the same
call returns once enough *fast* nodes have answered, together with the replies to earlier
rounds that have come in since.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from flwr.app import Message
from flwr.serverapp import Grid

from unstale.errors import ConfigError
from unstale.flower.close_policy import ClosedRound, ClosePolicy, Reason, reason_to_close
from unstale.flower.messages import is_training
from unstale.flower.transport import Transport
from unstale.flower.waiting import Clock, Wait, check_seconds, shorter
from unstale.flower.work import Arrival, WorkTicket
from unstale.flower.work_book import Inherited, WorkBook
from unstale.flower.wrapped_grid import WrappedGrid

_LOG = logging.getLogger(__name__)


class LateGrid(WrappedGrid):
    """A Grid with semi-asynchronous rounds, for any strategy of Flower.

    A node is fast until a round closes without its reply, and again once it answers in the
    round in which it was asked. A node that works is not asked again. Replies are pulled as
    soon as they are there and kept until their round comes. Not to be used by two threads.

    Args:
        grid: The Grid that Flower gave to the ServerApp.
        close: When a round closes.
        longest_lateness: Seconds within which a reply must come (the TTL of messages is a
            little longer); None for no limit.
        delay: Emulated lateness, for simulations: a function from a node to the number of
            rounds by which its replies come late, 0 for none. Until that round its node
            counts as working. A round waits for late replies whose time has come.
        poll: The longest pause between two looks for replies, in seconds.
        on_reply: Called once for each training reply with content as soon as it was pulled,
            before its round comes out. If it raises, so does the call that pulled, and the
            same reply is tried again next time.
        before_pause: Called before every pause: for work that should not delay messages to
            nodes, such as writing a checkpoint.
        first_round: The number of the first round.
        clock: What tells the time.

    Errors are replies too, as in Flower: `arrival_of(message).outcome` tells them apart.
    `counts` has the number of replies by outcome, and what was dropped: "repeated",
    "unknown", "overdue" (evaluation that came after its deadline), and "refused" messages.
    """

    def __init__(
        self,
        grid: Grid,
        close: ClosePolicy = ClosePolicy(),  # noqa: B008  (frozen)
        *,
        longest_lateness: float | None = None,
        delay: Callable[[int], int] | None = None,
        poll: float = 0.2,
        on_reply: Callable[[Arrival], None] | None = None,
        before_pause: Callable[[], None] | None = None,
        first_round: int = 1,
        clock: Clock = time,
    ) -> None:
        super().__init__(grid)
        check_seconds("poll", poll)
        if longest_lateness is not None:
            check_seconds("longest_lateness", longest_lateness)
        if not isinstance(close, ClosePolicy):
            raise ConfigError(
                f"`close` should be a `ClosePolicy`. Found {type(close).__name__}. Give one, such "
                "as `ClosePolicy(fraction=0.8, deadline=60)`."
            )
        self.close_policy = close
        self.book = WorkBook()
        self.on_reply = on_reply
        self.before_pause = before_pause
        self.last_round: ClosedRound | None = None
        self._poll = poll
        self._clock = clock
        self._transport = Transport(
            grid, self.book, longest_lateness=longest_lateness, delay=delay, clock=clock
        )
        self._slow: set[int] = set()
        self._arrivals: dict[str, Arrival] = {}
        self._round = first_round - 1
        self._in_round = False
        self._last_was_training = False

    # ---- what a strategy asks -------------------------------------------------------

    @property
    def round(self) -> int:
        """The number of the round of training that runs or ran last."""
        return self._round

    @property
    def counts(self) -> Counter[str]:
        """Replies by outcome and everything that was dropped or refused, since the start."""
        return self._transport.counts

    def resume_at(self, round: int, slow: Iterable[int] = ()) -> None:
        """Give the next round of training that number, and wait for none of the slow nodes."""
        self._round = round - 1
        self._slow.update(slow)

    def working(self) -> dict[int, WorkTicket]:
        """Return who trains, and on what."""
        return self.book.working()

    def idle_nodes(self) -> list[int]:
        """Look for replies, then return the connected nodes that could be asked now."""
        self.poll()
        busy = self.busy_nodes()
        return [node for node in self.get_node_ids() if node not in busy]

    def busy_nodes(self) -> set[int]:
        """Return the nodes that train or have a query to answer."""
        return self._transport.busy_nodes()

    def is_fast(self, node_id: int) -> bool:
        """Return whether rounds wait for a node."""
        return node_id not in self._slow

    def slow_nodes(self) -> list[int]:
        """Return the nodes that rounds do not wait for."""
        return sorted(self._slow)

    def arrival_of(self, message: Message) -> Arrival | None:
        """Return what is known of a reply that the last round of training returned."""
        return self._arrivals.get(message.metadata.reply_to_message_id)

    def wait_for_nodes(self, count: int = 1, timeout: float | None = None) -> list[int]:
        """Wait until that many nodes are connected, busy or not, and return those there are.

        Replies are pulled meanwhile, and the log says now and then that it waits.
        """
        return self._wait_for_nodes(count, Wait(self._clock, self._poll, timeout))

    # ---- rounds ---------------------------------------------------------------------

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Send messages and return the replies that are due.

        Training messages make a round of training (`train_round`), others are queries
        (`ask`). A call without messages can be either: since `Strategy.start` trains and
        evaluates by turns, it is an evaluation that is not wanted right after a round of
        training, and a round of training in which nobody is idle otherwise. A strategy
        with a loop of its own should call `train_round`.
        """
        messages = list(messages)
        training = [m for m in messages if is_training(m)]
        if training and len(training) < len(messages):
            raise ConfigError(
                "The messages of one call should all be for training, or none of them. "
                f"Found {len(training)} of {len(messages)}. Send them in two calls."
            )
        if training or not (messages or self._last_was_training):
            self._last_was_training = True
            return self.train_round(training, timeout=timeout)
        self._last_was_training = False
        return self.ask(messages, timeout=timeout)

    def train_round(
        self,
        messages: Iterable[Message],
        *,
        timeout: float | None = None,
        inherited: Inherited = Inherited(),  # noqa: B008  (frozen)
    ) -> list[Message]:
        """Make one round of training and return the replies that come out in it.

        Messages to nodes that work are not sent. Without any message the round waits for
        replies to earlier ones; if nothing is out either, for a node to connect.

        Args:
            messages: The work.
            timeout: Seconds after which the round closes in any case.
            inherited: Replies of this round that a process took before it died in it.
        """
        wait = Wait(self._clock, self._poll, shorter(self.close_policy.deadline, timeout))
        self._round += 1
        self._in_round = True
        try:
            self.poll()
            asked, not_asked = self._transport.send_work(messages, self._round)
            closed_by = self._wait_for_replies(asked, inherited, wait)
        finally:
            self._in_round = False
        arrivals = self.book.come_out(self._round)
        self._arrivals = {arrival.ticket.message_id: arrival for arrival in arrivals}
        self._judge_speed(asked)
        self.last_round = ClosedRound(
            self._round, tuple(t.node_id for t in asked), not_asked, closed_by, wait.seconds
        )
        return [arrival.message for arrival in arrivals]

    def ask(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Send evaluations or queries to those of their nodes that are idle; return the replies.

        Waits for all of them, at most until the deadline of `close`. What comes later is
        dropped and counted; until then its node is busy.
        """
        wait = Wait(self._clock, self._poll, shorter(self.close_policy.deadline, timeout))
        self.poll()
        with self._transport.send_queries(messages) as queries:
            while queries.num_missing:
                self.poll()
                if wait.is_over or not queries.num_missing:
                    break
                if wait.should_tell():
                    _LOG.info("Still waiting for %d replies to questions.", queries.num_missing)
                self._pause(wait)
            return queries.replies

    def poll(self) -> None:
        """Pull every reply that is there."""
        # All are taken in before anybody is told, so that a failure there loses none.
        self._transport.pull(self._slow)
        unread = self._transport.unread
        while unread:
            if self.on_reply is not None:
                now_or_next = self._round if self._in_round else self._round + 1
                self.on_reply(unread[0].arrival(max(unread[0].not_before, now_or_next)))
            unread.popleft()

    # ---- the steps of a round -------------------------------------------------------

    def _wait_for_replies(
        self, asked: Sequence[WorkTicket], inherited: Inherited, wait: Wait
    ) -> Reason:
        """Return once the round may close, with the reason."""
        # Those asked with an emulated delay are slow, whatever they were before.
        fast = {t.message_id for t in asked if self.is_fast(t.node_id)}
        fast -= self.book.delayed()
        if self.book.is_empty():
            return self._wait_for_somebody(wait)
        while True:
            self.poll()
            reason = reason_to_close(self.close_policy, self.book, self._round, fast, inherited)
            if reason is None and wait.is_over:
                reason = "time"
            if reason is not None:
                return reason
            if wait.should_tell():
                self._tell_who_is_awaited(fast)
            self._pause(wait)

    def _wait_for_somebody(self, wait: Wait) -> Reason:
        """Let a round pass in which nobody was asked and nobody works."""
        self._clock.sleep(min(self._poll, 1.0))  # nodes that refuse must not make rounds spin
        self._wait_for_nodes(1, wait)
        return "time" if wait.is_over else "complete"

    def _wait_for_nodes(self, count: int, wait: Wait) -> list[int]:
        while True:
            self.poll()
            nodes = list(self.get_node_ids())
            if len(nodes) >= count or wait.is_over:
                return nodes
            if wait.should_tell():
                _LOG.info("Waiting for nodes: %d of %d are connected.", len(nodes), count)
            self._pause(wait)

    def _pause(self, wait: Wait) -> None:
        if self.before_pause is not None:
            self.before_pause()
        wait.pause()

    def _judge_speed(self, asked: Sequence[WorkTicket]) -> None:
        for ticket in asked:
            arrival = self._arrivals.get(ticket.message_id)
            if arrival is None:
                self._slow.add(ticket.node_id)
            elif arrival.outcome == "answered":
                self._slow.discard(ticket.node_id)

    def _tell_who_is_awaited(self, fast: set[str]) -> None:
        working = self.book.working()
        _LOG.info(
            "Round %d waits: %d fast nodes have not answered, %d nodes work, the longest since "
            "round %d.",
            self._round,
            len(fast & self.book.out().keys()),
            len(working),
            min((ticket.round for ticket in working.values()), default=self._round),
        )
