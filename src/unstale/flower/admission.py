"""How large a reply may be, and which of its metrics counts examples."""

from dataclasses import dataclass

from unstale.errors import ConfigError
from unstale.flower.layout import Layout

# The default limit of a reply: twice the model, and room for metrics and headers.
_ROOM = 2**20


@dataclass(frozen=True, slots=True)
class Admission:
    """What is let in, apart from the server's own limits."""

    max_bytes: int
    """The most that one reply may hold."""
    examples_key: str
    """The metric that says how many examples were used."""


def admission_to(layout: Layout, max_reply_bytes: int | None, examples_key: str) -> Admission:
    """Return what is let in for a model of that layout; None for its own limit of bytes."""
    return Admission(max_reply_bytes or 2 * layout.num_bytes + _ROOM, examples_key)


def check_max_reply_bytes(value: int | None) -> None:
    """Raise ConfigError unless a limit is a whole number of bytes, or None."""
    if value is not None and (type(value) is not int or value < 1):
        raise ConfigError(
            "`max_reply_bytes` should be a whole number of at least 1, or None for twice the "
            f"model's size. Found {value!r}."
        )
