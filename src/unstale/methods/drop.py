"""Dropping updates above a maximum staleness, as synchronous training does."""

from collections.abc import Sequence
from dataclasses import dataclass

from unstale.errors import ConfigError
from unstale.methods.base import Stateless, per_update
from unstale.updates import Note, Outcome, ServerView, State, Update


@dataclass(frozen=True, slots=True)
class Drop(Stateless):
    """Drops updates with a staleness above `max_staleness`.

    Example:
        >>> Drop(max_staleness=5)
        Drop(max_staleness=5)
    """

    max_staleness: int = 0
    """The largest staleness of an update that is used."""

    def __post_init__(self) -> None:
        if type(self.max_staleness) is not int or self.max_staleness < 0:
            raise ConfigError(
                "Drop: `max_staleness` should be an integer of at least 0. "
                f"Found {self.max_staleness!r}."
            )

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Return the updates without those that are too stale."""

        def treat(update: Update, view: ServerView) -> tuple[Update | None, Note | None]:
            staleness = update.staleness(view.version)
            if staleness <= self.max_staleness:
                return update, None
            return None, Note(
                "dropped", update.client_id, update.base_version, {"staleness": staleness}
            )

        return per_update(updates, state, view, treat)
