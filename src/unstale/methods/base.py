"""The protocols of compensators and aggregators, and functions that methods share.

Compensators and aggregators are frozen dataclasses of settings. What they remember is
in the state that `init` returns and that `apply` takes and returns, so a run can be
saved, resumed and replayed from states alone. `Stateless` and `per_update` help to
write methods that treat updates one by one; `Wrapper` is a compensator around others.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar, Protocol, runtime_checkable

from unstale.errors import ConfigError
from unstale.updates import Aggregated, Note, Outcome, ServerView, State, Update

# Treats one stale update; returns the update to use (None drops it) and a note for the report.
OneUpdate = Callable[[Update, ServerView], tuple[Update | None, Note | None]]


@runtime_checkable
class Compensator(Protocol):
    """Corrects the stale updates of a round before they are aggregated.

    The conformance tests check that every compensator returns fresh updates (staleness 0)
    unchanged; keeps names, shapes and dtypes; does not modify its arguments; returns finite
    values for finite ones; gives the same result for the same rng, whatever the order of
    arrivals; adds updates for absent clients only, marked, at most one for each; and has a
    state that can be saved and loaded.
    """

    @property
    def lookback(self) -> int:
        """How many versions before an update's base version it reads from the history."""
        ...

    def init(self) -> State:
        """Return the state before the first round."""
        ...

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Compensate the updates of one round. Called every round, even without updates."""
        ...


@runtime_checkable
class Wrapper(Protocol):
    """A compensator that applies others; gives access to them and their states."""

    def parts(self, state: State) -> Sequence[tuple[Compensator, State]]:
        """Return the wrapped compensators, each with its part of the state."""
        ...

    def reached_by(
        self, update: Update, state: State, view: ServerView
    ) -> Iterator[tuple[Compensator, State]]:
        """Yield the wrapped compensators that would receive this update unchanged, in order."""
        ...


@runtime_checkable
class Aggregator(Protocol):
    """Combines the (compensated) updates of a round into one change of the global weights."""

    def init(self) -> State:
        """Return the state before the first round."""
        ...

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Aggregated:
        """Return the change; None if there are no updates with a positive weight."""
        ...


class Stateless:
    """Base class of methods without state."""

    __slots__ = ()

    @property
    def lookback(self) -> int:
        """No version before an update's base is read."""
        return 0

    def init(self) -> State:
        """Return the empty state."""
        return {}


def per_update(
    updates: Sequence[Update], state: State, view: ServerView, treat: OneUpdate
) -> Outcome:
    """Apply `treat` to every stale update and return fresh ones unchanged."""
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
    """Raise ConfigError unless `fallback` is `keep` or `drop`."""
    if fallback not in FALLBACKS:
        raise ConfigError(f"`fallback` should be one of {FALLBACKS}. Found {fallback!r}.")


def fall_back(update: Update, fallback: str, why: str) -> tuple[Update | None, Note]:
    """Return the update unchanged or None, as `fallback` says, with a note of the reason."""
    note = Note("fallback", update.client_id, update.base_version, {"did": fallback, "reason": why})
    return (update if fallback == "keep" else None), note


@runtime_checkable
class TrainsModel(Protocol):
    """A compensator that trains the model on the server, as conversion does."""

    trains_model: ClassVar[bool]
    """True: running statistics and dropout are refused, since no surrogate repeats them."""


def trains_model(compensator: Compensator) -> bool:
    """Return whether a compensator, or one inside it, trains the model on the server."""
    if isinstance(compensator, TrainsModel):
        return compensator.trains_model
    if isinstance(compensator, Wrapper):
        return any(trains_model(part) for part, _ in compensator.parts(compensator.init()))
    return False


@runtime_checkable
class MakesModel(Protocol):
    """An aggregator that makes the next global model itself, as FedAT's does."""

    makes_model: ClassVar[bool]
    """True: its change is the way to that model, which a server optimizer would leave."""


def makes_model(aggregator: Aggregator) -> bool:
    """Return whether an aggregator makes the next global model itself."""
    return isinstance(aggregator, MakesModel) and aggregator.makes_model


# --- for wrappers ------------------------------------------------------------------------


def check_inner(wrapper: str, inner: object) -> None:
    """Raise ConfigError unless `inner` is a compensator."""
    if not isinstance(inner, Compensator):
        raise ConfigError(
            f"{wrapper}: `inner` should be a compensator (with `lookback`, `init` and `apply`). "
            f"Found {inner!r}."
        )


def in_order(updates: Iterable[Update], arrived: Sequence[Update]) -> tuple[Update, ...]:
    """Return updates in the order in which they arrived (those that did not, last)."""
    place = {update.key: i for i, update in enumerate(arrived)}
    return tuple(sorted(updates, key=lambda u: place.get(u.key, len(place))))


def is_kept(view: ServerView, version: int) -> bool:
    """Return whether the server still keeps a version, so that updates from it may arrive."""
    if view.kept_versions:
        return version in view.kept_versions
    return view.history(version) is not None  # a view may be made without `kept_versions`
