"""The compensator protocol, and what compensators share.

A compensator is a frozen dataclass of settings. What it remembers lives in the
state that `init` makes and `apply` passes on, so that saving, resuming and
replaying need nothing from the compensator itself. `Stateless` and `per_update`
serve those that treat updates one by one; `Wrapper` is a compensator around others.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from unstale.errors import ConfigError
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
class Wrapper(Protocol):
    """A compensator made of others. Whoever looks for a part inside needs these two."""

    def parts(self, state: State) -> Sequence[tuple[Compensator, State]]:
        """Return the wrapped compensators, each with its part of the memory."""
        ...

    def reached_by(
        self, update: Update, state: State, view: ServerView
    ) -> Iterator[tuple[Compensator, State]]:
        """Yield the wrapped compensators that would get this update as it came, in order."""
        ...


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


# --- for wrappers ------------------------------------------------------------------------


def check_inner(wrapper: str, inner: object) -> None:
    """Raise unless a compensator is wrapped."""
    if not isinstance(inner, Compensator):
        raise ConfigError(
            f"{wrapper}: `inner` should be a compensator (with `lookback`, `init` and `apply`). "
            f"Found {inner!r}."
        )


def in_order(updates: Iterable[Update], arrived: Sequence[Update]) -> tuple[Update, ...]:
    """Return updates in the order in which they arrived."""
    place = {update.key: i for i, update in enumerate(arrived)}
    return tuple(sorted(updates, key=lambda u: place.get(u.key, len(place))))


def is_kept(view: ServerView, version: int) -> bool:
    """Tell whether the server still has a version, so that updates from it may come."""
    if view.kept_versions:
        return version in view.kept_versions
    return view.history(version) is not None  # a view made by hand may not say
