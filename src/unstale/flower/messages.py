"""Messages to nodes, and what Flower's replies to them mean."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from flwr.app import ArrayRecord, ConfigRecord, Error, Message, MessageType, Metadata, RecordDict

from unstale.errors import ConfigError

# Where a training message says on which version of the server it is based: in the record of
# settings, since some of Flower's client mods allow for one such record only.
VERSION_KEY = "unstale-version"

# The time to live of a message without a limit on lateness: a hundred years. Flower adds it
# to a time of day in double precision and compares to a tenth of a second.
_UNLIMITED = 100 * 365.25 * 86_400.0


@dataclass(frozen=True, slots=True)
class RecordNames:
    """The names of records and metrics in messages, as the arguments of FedAvg call them."""

    arrayrecord_key: str = "arrays"
    """The record of arrays that clients get."""
    configrecord_key: str = "config"
    """The record of settings that clients get."""
    weighted_by_key: str = "num-examples"
    """The metric in which a client says how many examples it used."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise ConfigError(f"`{name}` should be a non-empty string. Found {value!r}.")
        if self.arrayrecord_key == self.configrecord_key:
            raise ConfigError(
                "`arrayrecord_key` and `configrecord_key` should differ. Found "
                f"{self.arrayrecord_key!r} for both."
            )


# ---- messages that go out -----------------------------------------------------------


def messages_to(
    nodes: Sequence[int],
    kind: str,
    *,
    names: RecordNames,
    arrays: ArrayRecord,
    config: ConfigRecord,
    round: int,
    version: int | None = None,
) -> list[Message]:
    """Return the same message to each node; with the version of the arrays for training."""
    settings = ConfigRecord({**config, "server-round": round})
    if version is not None:
        settings[VERSION_KEY] = version
    content = RecordDict({names.arrayrecord_key: arrays, names.configrecord_key: settings})
    return [
        Message(content=content, message_type=kind, dst_node_id=node, group_id=str(round))
        for node in nodes
    ]


def is_training(message: Message) -> bool:
    """Return whether a message asks to train, by whichever function of the app."""
    return message.metadata.message_type.split(".")[0] == MessageType.TRAIN


def version_of(message: Message, default: int) -> int:
    """Return the version that a training message carries, `default` if it names none."""
    records = message.content.config_records.values()
    version = next((r[VERSION_KEY] for r in records if VERSION_KEY in r), default)
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise ConfigError(
            f"`{VERSION_KEY}` of a training message should be a version of the server, a whole "
            f"number of at least 0. Found {version!r}. Write it as the strategy of Unstale does."
        )
    return version


def time_to_live(longest_lateness: float | None) -> float:
    """Return the TTL of messages whose replies may be that many seconds late; None: no limit.

    The margin is for clocks that differ and for the way there and back.

    Example:
        >>> time_to_live(600.0)
        720.0
    """
    return _UNLIMITED if longest_lateness is None else 60.0 + 1.1 * longest_lateness


def delay_of(node_id: int, delay: Callable[[int], int] | None) -> int:
    """Return the emulated delay of a node in rounds, checked."""
    if delay is None:
        return 0
    found = delay(node_id)
    try:
        rounds = operator.index(found)
    except TypeError:
        rounds = -1
    if rounds < 0:
        raise ConfigError(
            f"`delay` should return a whole number of rounds, at least 0. Found {found!r} for "
            f"node {node_id}. Return 0 for a node without delay."
        )
    return rounds


# ---- replies that come in -----------------------------------------------------------

Outcome = Literal["answered", "failed", "gone", "expired", "unreadable"]
"""How a piece of work ended.

- answered: the reply has content.
- failed: the client's app raised, crashed or did not start; the node is still there.
- gone: the node can't be reached any more; what it worked on is lost.
- expired: the message or its reply outlived its TTL, or the SuperLink has lost it.
- unreadable: a reply came, and decoding it raised.
"""

# Flower does not export its codes; they are part of its protocol (flwr 1.41).
_OUTCOME_OF_CODE: dict[int, Outcome] = {
    0: "failed",  # unknown
    1: "failed",  # the ClientApp could not be loaded
    2: "failed",  # the ClientApp raised
    3: "expired",  # message unavailable
    4: "expired",  # reply unavailable
    5: "gone",  # node unavailable
    6: "failed",  # a mod's precondition did not hold
    7: "failed",  # an invalid app bundle
    8: "failed",  # the ClientApp's process died
}
MESSAGE_UNAVAILABLE = 3

# Ours, for replies that never became a message; never sent anywhere.
_UNREADABLE = 1001


def outcome_of(reply: Message) -> Outcome:
    """Return how the work ended that a reply answers."""
    if reply.has_content():
        return "answered"
    if not reply.has_error():
        return "unreadable"
    if reply.error.code == _UNREADABLE:
        return "unreadable"
    return _OUTCOME_OF_CODE.get(reply.error.code, "failed")


def unreadable_reply(message_id: str, node_id: int, reason: str) -> Message:
    """Return an error in the place of a reply that could not be decoded."""
    metadata = Metadata(
        run_id=0,
        message_id="",
        src_node_id=node_id,
        dst_node_id=1,  # the SuperLink
        reply_to_message_id=message_id,
        group_id="",
        created_at=0.0,
        ttl=0.0,
        message_type="train",
    )
    # As Flower itself builds the errors that it puts in the place of replies.
    return Message(metadata=metadata, error=Error(_UNREADABLE, reason))  # type: ignore[call-overload,no-any-return]
