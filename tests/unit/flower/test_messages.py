"""What replies mean."""

import pytest
from flwr.app import Error, Message
from pretend_grid import message, reply_to

from unstale.flower.messages import outcome_of, unreadable_reply


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (None, "answered"),
        (0, "failed"),
        (1, "failed"),
        (2, "failed"),
        (3, "expired"),
        (4, "expired"),
        (5, "gone"),
        (8, "failed"),
        (99, "failed"),
    ],
)
def test_codes(code, outcome):
    assert outcome_of(reply_to(message(5), code=code)) == outcome


def test_the_codes_are_those_of_flower():
    from flwr.common.constant import ErrorCode

    assert (ErrorCode.CLIENT_APP_RAISED_EXCEPTION, ErrorCode.CLIENT_APP_CRASHED) == (2, 8)
    assert (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE) == (3, 4)
    assert ErrorCode.NODE_UNAVAILABLE == 5


def test_an_unreadable_reply_says_whose_it_was():
    reply = unreadable_reply("m1", 2**64 - 1, "ValueError: no")
    assert outcome_of(reply) == "unreadable"
    assert reply.metadata.reply_to_message_id == "m1"
    assert reply.metadata.src_node_id == 2**64 - 1
    assert reply.error.reason == "ValueError: no"


def test_a_message_with_nothing_in_it_is_unreadable():
    empty = Message(metadata=message(5).metadata, error=Error(2, ""))
    empty.__dict__["_error"] = None
    assert outcome_of(empty) == "unreadable"
