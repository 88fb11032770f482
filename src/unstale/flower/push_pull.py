"""Pushing to and pulling from a Grid so that one bad or slow reply costs no other node's work."""

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from flwr.app import Message
from flwr.serverapp import Grid

from unstale.flower.messages import MESSAGE_UNAVAILABLE, unreadable_reply

_LOG = logging.getLogger(__name__)

# Seconds that a call waits for the pulls that it has begun; most take milliseconds.
_PATIENCE = 0.5

# A pull that took longer was held up by an upload (or a node that only seems to upload).
STALLED = 60.0


class PushPull:
    """Pushes messages to a Grid and pulls replies from it.

    A real Grid hands over all replies of one pull or none, which harms in two ways.

    - If one reply can't be decoded the pull raises, and the SuperLink has deleted the
      others with it. So whatever was lost in such a pull is pulled alone from then on: a
      node that sends garbage harms others at most once.
    - A reply that is still being uploaded blocks the pull, for minutes if the node's line
      is slow. So pulls run in threads, slow nodes apart from fast ones, and a message is
      never in two pulls at once, for the second would be told that it does not exist.
    """

    def __init__(self, grid: Grid, patience: float = _PATIENCE) -> None:
        self._grid = grid
        self._patience = patience
        self._pulled_alone: set[int] = set()
        self._running: list[_Pull] = []

    def push(self, messages: Sequence[Message]) -> list[Message]:
        """Send messages; return those that were accepted, each with its id."""
        if not messages:
            return []
        pushed = set(self._grid.push_messages(messages))
        if not pushed and len(messages) > 1:
            # Also the answer to a batch that was too large as a whole.
            pushed = {i for message in messages for i in self._grid.push_messages([message])}
        # A refused one has an empty id, None, or no id at all, depending on the Grid, so
        # only the ids themselves tell who was refused.
        return [m for m in messages if m.metadata.message_id and m.metadata.message_id in pushed]

    def pull(self, out: Mapping[str, int], slow: AbstractSet[int] = frozenset()) -> list[Message]:
        """Return all replies that are there; those that take long come with a later call.

        Args:
            out: The node of every message that has no reply yet, by message id.
            slow: Nodes for which nobody waits.
        """
        until = time.monotonic() + self._patience
        under_way = {message_id for pull in self._running for message_id in pull.out}
        waiting = {i: node for i, node in out.items() if i not in under_way}
        alone = {i: node for i, node in waiting.items() if node in self._pulled_alone}
        late = {i: node for i, node in waiting.items() if node in slow and i not in alone}
        fast = {i: node for i, node in waiting.items() if i not in alone and i not in late}
        begun = [self._begin(group) for group in (fast, late) if group]
        begun += [self._begin({i: node}) for i, node in alone.items()]
        replies: list[Message] = []
        while begun:
            for pull in begun:
                pull.join(max(0.0, until - time.monotonic()))
            begun = self._collect(replies)
        self._collect(replies)
        return replies

    def _begin(self, out: Mapping[str, int], after: Exception | None = None) -> "_Pull":
        pull = _Pull(self._grid, out, after)
        self._running.append(pull)
        pull.start()
        return pull

    def _collect(self, replies: list[Message]) -> "list[_Pull]":
        """Take what ended pulls brought; return the pulls begun because some had failed."""
        begun: list[_Pull] = []
        for pull in [p for p in self._running if not p.is_alive()]:
            if pull.error is not None:
                self._raise_if_disconnected(pull.error)
            self._running.remove(pull)
            if pull.error is None:
                replies.extend(self._readable(pull, reply) for reply in pull.replies)
            elif len(pull.out) == 1 and (pull.after or self._pulled_alone & set(pull.out.values())):
                ((message_id, node_id),) = pull.out.items()
                self._pulled_alone.add(node_id)
                replies.append(unreadable_reply(message_id, node_id, _describe(pull.error)))
            else:
                _LOG.warning(
                    "A reply could not be decoded (%s). Its sender is one of those whose work "
                    "is reported as unreadable now; they are pulled alone from here on.",
                    _describe(pull.error),
                )
                begun += [self._begin({i: n}, after=pull.error) for i, n in pull.out.items()]
        return begun

    def _readable(self, pull: "_Pull", reply: Message) -> Message:
        """Return a reply, or what is known of it if an earlier pull has swallowed it."""
        message_id = reply.metadata.reply_to_message_id
        node_id = pull.out.get(message_id)
        if node_id is None:
            return reply
        swallowed = reply.has_error() and reply.error.code == MESSAGE_UNAVAILABLE
        if pull.seconds > STALLED or (pull.after and swallowed):
            self._pulled_alone.add(node_id)
        if pull.after is None or not swallowed:
            return reply
        return unreadable_reply(message_id, node_id, _describe(pull.after))

    def _raise_if_disconnected(self, error: Exception) -> None:
        """Raise `error` if it is the connection or the run that has ended, not one reply.

        Flower's exceptions for these are not public, so another call is tried.
        """
        try:
            list(self._grid.get_node_ids())
        except Exception:
            raise error from None


class _Pull(threading.Thread):
    """One pull of a set of messages; `after` is what the pull raised that may have lost them."""

    def __init__(self, grid: Grid, out: Mapping[str, int], after: Exception | None) -> None:
        super().__init__(name="unstale-pull", daemon=True)  # one that hangs keeps nobody alive
        self._grid = grid
        self.out = dict(out)
        self.after = after
        self.replies: list[Message] = []
        self.error: Exception | None = None
        self.seconds = 0.0

    def run(self) -> None:
        """Pull, and keep what came or what was raised."""
        began = time.monotonic()
        try:
            self.replies = list(self._grid.pull_messages(list(self.out)))
        except Exception as error:  # whatever decoding may raise; judged by who collects
            self.error = error
        self.seconds = time.monotonic() - began


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]
