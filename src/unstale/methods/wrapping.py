"""What wrappers around a compensator share."""

from collections.abc import Iterable, Sequence

from unstale.errors import ConfigError
from unstale.methods.base import Compensator
from unstale.updates import ServerView, Update


def check_inner(wrapper: str, inner: object) -> None:
    """Raise unless a compensator is wrapped."""
    if not isinstance(inner, Compensator):
        raise ConfigError(
            f"{wrapper}: `inner` should be a compensator (with `lookback`, `init` and `apply`). "
            f"Found {inner!r}."
        )


def key_of(update: Update) -> tuple[str, int]:
    """Return what tells two updates of one round apart."""
    return update.client_id, update.base_version


def in_order(updates: Iterable[Update], arrived: Sequence[Update]) -> tuple[Update, ...]:
    """Return updates in the order in which they arrived."""
    place = {key_of(update): i for i, update in enumerate(arrived)}
    return tuple(sorted(updates, key=lambda u: place.get(key_of(u), len(place))))


def is_kept(view: ServerView, version: int) -> bool:
    """Tell whether the server still has a version, so that updates from it may come."""
    if view.kept:
        return version in view.kept
    return view.history(version) is not None  # a view made by hand may not say
