"""Selection: which stale updates of a round are converted, within its budget."""

from collections.abc import Mapping, Sequence

from unstale.methods.base import fall_back
from unstale.methods.conversion.client_memory import Known
from unstale.updates import Note, PrefitResult, ServerView, Update

# What is used of an update (None drops it), and the note about it.
Treated = tuple[Update | None, Note]


def select(
    updates: Sequence[Update],
    late: Sequence[int],
    ahead: Mapping[int, PrefitResult],
    view: ServerView,
    *,
    most: int | None,
    fallback: str,
) -> tuple[dict[int, Known], dict[int, Treated]]:
    """Return the stale updates whose base version is kept, and what became of some.

    The stalest are converted first; prefits do not count against the budget.

    Args:
        updates: The updates of the round.
        late: The indices of the stale ones.
        ahead: Prefits, by the index of their update.
        view: The server.
        most: The maximum number of conversions; None for no limit.
        fallback: What to do with an update whose base version is gone: `keep` or `drop`.

    Returns:
        The updates with their base weights, by index, in the order of arrival. And what is used
        of those that are not to be converted, by index: a base that is gone, or no budget left.
    """
    known: dict[int, Known] = {}
    treated: dict[int, Treated] = {}
    budget = len(late) if most is None else most
    for i in sorted(late, key=lambda i: -updates[i].staleness(view.version)):
        base = ahead[i].request.base if i in ahead else view.history(updates[i].base_version)
        if base is None:
            treated[i] = fall_back(updates[i], fallback, "the base weights are gone")
            continue
        known[i] = (updates[i], base)
        if i in ahead:
            continue
        if budget == 0:
            treated[i] = fall_back(updates[i], "keep", "the round's conversions are used up")
        else:
            budget -= 1
    return {i: known[i] for i in sorted(known)}, treated


def prefit_of(update: Update, view: ServerView) -> PrefitResult | None:
    """Return the prefit for this update, or None."""
    found = view.tools.prefits.get(update.key)
    # A prefit is for one delta: an earlier part of a chain may have changed it since.
    return found if found is not None and found.request.delta is update.delta else None
