"""One piece of work on Flower: a training message to a node, its reply, and what became of it."""

from dataclasses import dataclass
from typing import Literal

from flwr.app import Message

from unstale.flower.journal import Entry, Key
from unstale.flower.messages import Outcome, outcome_of

Stage = Literal["handed_out", "sent", "pulled", "accepted", "given", "closed"]
"""How far a piece of work has come; see `WorkBook`."""


@dataclass(frozen=True, slots=True)
class WorkTicket:
    """A training message that was sent, and the version that it was based on."""

    message_id: str
    """Flower's id of the message; the reply names it."""
    node_id: int
    """The node that was asked (an unsigned 64-bit number)."""
    version: int
    """The server's version whose weights the message carries."""
    round: int
    """The round in which it was sent."""
    sent_at: float
    """When it was sent, in monotonic seconds."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A reply, in the round in which it takes part."""

    message: Message
    """The reply, with content or with an error (see `outcome`)."""
    ticket: WorkTicket
    """The message that it answers."""
    rounds_late: int
    """Rounds between asking and taking part; 0 within one round."""
    seconds: float
    """Seconds between asking and pulling."""

    @property
    def outcome(self) -> Outcome:
        """How the work ended."""
        return outcome_of(self.message)


@dataclass(slots=True, eq=False)
class Work:
    """One entry of the `WorkBook`, which alone changes it."""

    node_id: int
    version: int
    stage: Stage
    ticket: WorkTicket | None = None
    """None before the message is sent, and if a process sent it that has died."""
    not_before: int = 0
    """The first round in which the reply may take part; after the round in which it was sent
    where lateness is emulated."""
    reply: Message | None = None
    pulled_at: float = 0.0
    in_grid: bool = False
    """Whether the grid has sent the message and not yet handed over the reply."""
    entry: Entry | None = None
    """The accepted update."""
    keeps_version: bool = False
    """Whether the server keeps the version for this work."""
    inherited: bool = False
    """Whether the update was accepted by a process that died."""

    @property
    def key(self) -> Key:
        """The client and the base version, as the server and the journal know them."""
        return str(self.node_id), self.version

    @property
    def message_id(self) -> str:
        """Flower's id of the message; empty if this process has sent none."""
        return "" if self.ticket is None else self.ticket.message_id

    @property
    def is_delayed(self) -> bool:
        """Whether lateness is emulated for it: its node counts as working until its round."""
        return self.ticket is not None and self.not_before > self.ticket.round

    @property
    def has_answer(self) -> bool:
        """Whether a reply with content is here."""
        return self.reply is not None and outcome_of(self.reply) == "answered"

    def arrival(self, round: int) -> Arrival:
        """Return the reply as it takes part in a round."""
        if self.ticket is None or self.reply is None:
            raise ValueError("Work without a message or without a reply cannot arrive.")
        late, seconds = round - self.ticket.round, self.pulled_at - self.ticket.sent_at
        return Arrival(self.reply, self.ticket, late, seconds)
