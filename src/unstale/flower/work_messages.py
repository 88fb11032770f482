"""Training messages as `LateGrid` sends them: their version, how long they live, their delay."""

import operator
from collections.abc import Callable

from flwr.app import Message, MessageType

from unstale.errors import ConfigError

# Where a training message says on which version of the server it is based: in the record of
# settings, since some of Flower's client mods allow for one such record only.
VERSION_KEY = "unstale-version"

# Seconds a message lives if lateness is unlimited: a hundred years. Flower adds it to a
# time of day in double precision and compares to a tenth of a second.
UNLIMITED = 100 * 365.25 * 86_400.0


def is_training(message: Message) -> bool:
    """Return whether a message asks to train, by whichever function of the app."""
    return message.metadata.message_type.split(".")[0] == MessageType.TRAIN


def time_to_live(longest_lateness: float | None) -> float:
    """Return the TTL that lets replies in until then; None for no limit.

    The margin is for clocks that differ and for the way there and back.

    Example:
        >>> time_to_live(600.0)
        720.0
    """
    return UNLIMITED if longest_lateness is None else 60.0 + 1.1 * longest_lateness


def version_of(message: Message, default: int) -> int:
    """Return the version that a training message carries, `default` if it does not say."""
    records = message.content.config_records.values()
    version = next((r[VERSION_KEY] for r in records if VERSION_KEY in r), default)
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise ConfigError(
            f"`{VERSION_KEY}` of a training message should be a version of the server, a whole "
            f"number of at least 0. Found {version!r}. Write it as the strategy of Unstale does."
        )
    return version


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
