"""Evaluations and queries: messages whose replies count only while they are waited for."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from flwr.app import Message


class AwaitedReplies:
    """The replies to one set of messages, as they come in."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.replies: list[Message] = []
        self._missing = {message.metadata.message_id for message in messages}

    @property
    def are_missing(self) -> int:
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


class Errands:
    """All such messages that are out, by node."""

    def __init__(self) -> None:
        self.out: dict[str, int] = {}
        self.counts: Counter[str] = Counter()
        self._awaited = AwaitedReplies([])

    @contextmanager
    def awaiting(self, messages: Sequence[Message]) -> Iterator[AwaitedReplies]:
        """Collect the replies to messages just sent; afterwards they are overdue."""
        self.out.update({m.metadata.message_id: m.metadata.dst_node_id for m in messages})
        self._awaited = AwaitedReplies(messages)
        try:
            yield self._awaited
        finally:
            self._awaited = AwaitedReplies([])

    def take(self, reply: Message) -> bool:
        """Take a reply if it belongs to an errand; return whether it does."""
        if self.out.pop(reply.metadata.reply_to_message_id, None) is None:
            return False
        if not self._awaited.take(reply):
            self.counts["overdue"] += 1
        return True
