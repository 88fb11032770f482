"""Who works on which version in Flower: messages that are out, and replies that are in."""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from flwr.app import Message

from unstale.flower.outcomes import Outcome, outcome_of

# Answered message ids that are remembered, to tell a repeated reply from an unknown one.
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class WorkTicket:
    """One training message that is out, and the truth about what it was based on."""

    message_id: str
    """Flower's id of the message; the reply names it."""
    node_id: int
    """Who was asked (an unsigned 64-bit number)."""
    version: int
    """The server's version whose weights it carries."""
    round: int
    """The round in which it was sent."""
    sent_at: float
    """When it was sent, in monotonic seconds."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One reply, in the round in which it comes out."""

    message: Message
    """The reply, with content or with an error (see `outcome`)."""
    ticket: WorkTicket
    """What it answers."""
    rounds_late: int
    """Rounds between asking and coming out; 0 within one round."""
    seconds: float
    """Seconds between asking and pulling."""

    @property
    def outcome(self) -> Outcome:
        """How the work ended."""
        return outcome_of(self.message)


@dataclass(frozen=True, slots=True)
class Pulled:
    """A reply in the buffer."""

    message: Message
    ticket: WorkTicket
    at: float
    due: int

    @property
    def has_answer(self) -> bool:
        """Whether it brings content rather than an error."""
        return outcome_of(self.message) == "answered"

    @property
    def is_held_back(self) -> bool:
        """Whether it is here only because lateness is emulated: its node still works."""
        return self.due > self.ticket.round

    def come_out(self, round: int) -> Arrival:
        """Return the arrival that it is in that round."""
        return Arrival(
            self.message, self.ticket, round - self.ticket.round, self.at - self.ticket.sent_at
        )


class TicketBook:
    """All training messages that are out and all replies that have not come out yet."""

    def __init__(self) -> None:
        self.out: dict[str, WorkTicket] = {}
        self.buffer: dict[str, Pulled] = {}
        self.counts: Counter[str] = Counter()
        self._due: dict[str, int] = {}
        self._answered: OrderedDict[str, None] = OrderedDict()

    def open(self, ticket: WorkTicket, delay: int) -> None:
        """Note a message that was sent, whose reply is held back for `delay` rounds."""
        self.out[ticket.message_id] = ticket
        self._due[ticket.message_id] = ticket.round + delay

    def is_delayed(self, ticket: WorkTicket) -> bool:
        """Return whether lateness is emulated for a message that is out."""
        return self._due[ticket.message_id] > ticket.round

    def take(self, reply: Message, now: float) -> Pulled | None:
        """Move a reply into the buffer; return None (and count) if nothing waits for it."""
        message_id = reply.metadata.reply_to_message_id
        ticket = self.out.pop(message_id, None)
        if ticket is None:
            self.counts["repeated" if message_id in self._answered else "unknown"] += 1
            return None
        due = self._due.pop(message_id)
        outcome = outcome_of(reply)
        self.counts[outcome] += 1
        if outcome != "answered":
            due = ticket.round  # there is nothing to hold back
        pulled = self.buffer[message_id] = Pulled(reply, ticket, now, due)
        self._answered[message_id] = None
        while len(self._answered) > _REMEMBERED:
            self._answered.popitem(last=False)
        return pulled

    def could_come(self, round: int) -> Iterator[WorkTicket]:
        """Yield the messages that are out and whose replies may come out by that round."""
        return (ticket for i, ticket in self.out.items() if self._due[i] <= round)

    def due(self, round: int) -> list[Pulled]:
        """Return the replies that come out in that round, in an order free of chance."""
        due = [pulled for pulled in self.buffer.values() if pulled.due <= round]
        return sorted(due, key=lambda p: (p.ticket.round, p.ticket.node_id))

    def release(self, round: int) -> list[Arrival]:
        """Take the replies out of the buffer that come out in that round."""
        arrivals = [pulled.come_out(round) for pulled in self.due(round)]
        for arrival in arrivals:
            del self.buffer[arrival.ticket.message_id]
        return arrivals

    def working(self) -> dict[int, WorkTicket]:
        """Return the ticket of every node that works, emulated work included."""
        held = (pulled.ticket for pulled in self.buffer.values() if pulled.is_held_back)
        return {ticket.node_id: ticket for ticket in (*self.out.values(), *held)}
