"""What a reply of Flower means for the work it answers."""

from typing import Literal

from flwr.app import Error, Message, Metadata

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


def outcome_of(message: Message) -> Outcome:
    """Return how the work ended that a reply answers."""
    if message.has_content():
        return "answered"
    if not message.has_error():
        return "unreadable"
    if message.error.code == _UNREADABLE:
        return "unreadable"
    return _OUTCOME_OF_CODE.get(message.error.code, "failed")


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
