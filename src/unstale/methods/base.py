"""What a compensator is, and the common shape of those that treat updates one by one.

A compensator is a frozen dataclass of settings. What it remembers lives in the
state that `init` makes and `apply` passes on, so that saving, resuming and
replaying need nothing from the compensator itself.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from unstale.errors import ConfigError
from unstale.inversion import Surrogate
from unstale.updates import Note, Outcome, ServerView, State, Update

# What becomes of one stale update: the update to go on with (None: dropped) and a note.
OneUpdate = Callable[[Update, ServerView], tuple[Update | None, Note | None]]


@runtime_checkable
class Compensator(Protocol):
    """Turns the updates of one round into better ones.

    Every compensator promises, and the conformance tests check: a fresh update
    (staleness 0) comes out unchanged; names, shapes and dtypes are kept; inputs are
    not changed; finite in, finite out; the same rng gives the same result; the order
    of arrivals does not matter; its state survives save and load.
    """

    @property
    def lookback(self) -> int:
        """How many versions before an update's base it reads from the history."""
        ...

    def init(self) -> State:
        """Return the memory before the first round."""
        ...

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Compensate one round's updates. Called every round, also without updates."""
        ...


@runtime_checkable
class HoldsSurrogates(Protocol):
    """A compensator that makes surrogates, or wraps one that does."""

    def surrogates(self, state: State) -> Mapping[str, Surrogate]:
        """Return the surrogates in its memory, by client."""
        ...


def surrogates_of(compensator: Compensator, state: State) -> dict[str, Surrogate]:
    """Return the surrogates that a compensator keeps, by client; none where it makes none."""
    if not isinstance(compensator, HoldsSurrogates):
        return {}
    return dict(compensator.surrogates(state))


class Stateless:
    """A base for compensators and aggregators without memory: `init` gives an empty state."""

    __slots__ = ()

    @property
    def lookback(self) -> int:
        """Only the base itself is read, if anything."""
        return 0

    def init(self) -> State:
        """Return the empty state."""
        return {}


def per_update(
    updates: Sequence[Update], state: State, view: ServerView, treat: OneUpdate
) -> Outcome:
    """Apply `treat` to every stale update and pass the fresh ones through."""
    kept: list[Update] = []
    notes: list[Note] = []
    for update in updates:
        result, note = (
            (update, None) if update.staleness(view.version) == 0 else treat(update, view)
        )
        if result is not None:
            kept.append(result)
        if note is not None:
            notes.append(note)
    return Outcome(tuple(kept), state, tuple(notes))


FALLBACKS = ("keep", "drop")


def check_fallback(fallback: str) -> None:
    """Raise unless `fallback` is a known way to treat an update whose base is gone."""
    if fallback not in FALLBACKS:
        raise ConfigError(f"`fallback` should be one of {FALLBACKS}. Found {fallback!r}.")


def fall_back(update: Update, fallback: str, why: str) -> tuple[Update | None, Note]:
    """Keep the update as it came, or drop it, and say so in a note."""
    note = Note("fallback", update.client_id, update.base_version, {"did": fallback, "reason": why})
    return (update if fallback == "keep" else None), note
