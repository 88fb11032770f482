"""A round's part of calibration: what `ConvertAll` does beside converting.

It brings together the pairs of fast clients (`probes.py`) and of slow ones (`late_truths.py`),
and applies the share that follows from them (`calibration.py`). Without calibration nothing here
does anything, and the state has no part of it.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from unstale.inversion import Conversion, Fit, Inversion, Request
from unstale.methods.conversion import late_truths, probes
from unstale.methods.conversion.calibration import mixed, shares_of
from unstale.methods.conversion.calibration_book import Book, new_book, pruned
from unstale.methods.conversion.candidates import best, inversion_of, names
from unstale.methods.conversion.client_memory import Entry
from unstale.methods.conversion.selection import Treated
from unstale.methods.conversion.settings import Calibration
from unstale.params import Params
from unstale.updates import Note, ServerView, State, Update


@dataclass(frozen=True, slots=True, eq=False)
class Begun:
    """A round of calibration before its fits."""

    settings: Calibration
    probing: probes.Plan
    """The probes that are compared and fitted."""
    notes: tuple[Note, ...] = ()
    """Estimates for slow clients that were compared with what arrived."""
    by: str = ""
    """The candidate that conversions of this round use."""

    def kept(self, state: State, book: Book | None = None) -> State:
        """Return the state with the book, or with that of the plan."""
        if not self.settings.enabled:
            return state
        return {**state, "calibration": self.probing.book if book is None else book}


def begin(
    updates: Sequence[Update],
    state: State,
    view: ServerView,
    settings: Calibration,
    inversion: Inversion,
) -> Begun:
    """Compare what arrived with earlier estimates, and plan the round's probes."""
    if not settings.enabled:
        return Begun(settings, probes.Plan(new_book()))
    book, notes = late_truths.compared(updates, _book(state), view.version)
    probing = probes.plan(updates, book, view, settings, inversion)
    return Begun(settings, probing, tuple(notes), best(book, settings))


def conclude(
    begun: Begun,
    fits: Mapping[probes.Key, Fit],
    changes: Sequence[Params],
    checks: Iterable[tuple[Update, Params]],
    view: ServerView,
    inversion: Inversion,
    max_growth: float,
) -> tuple[Book, list[Note]]:
    """Return the book after the round's comparisons, and the notes of them.

    Args:
        begun: The round.
        fits: The fits of its probes.
        changes: What the trainings of its probes changed.
        checks: Updates of clients that were stood in for, each with what training the client's
            old surrogate from the same version changes.
        view: The server.
        inversion: How surrogates are fitted.
        max_growth: As in `ConvertAll`.
    """
    if not begun.settings.enabled:
        return {}, []
    depth = depth_of(begun.settings, inversion)
    book, notes = probes.conclude(begun.probing, fits, changes, view, inversion, max_growth, depth)
    for update, change in checks:
        book, found = late_truths.checked(update, change, book, begun.notes, inversion.residual)
        notes.extend(found)
    return book, [*begun.notes, *notes]


def used(
    treated: Mapping[int, Treated],
    updates: Sequence[Update],
    requests: Mapping[int, Request],
    conversions: Mapping[int, Conversion],
    clients: Mapping[str, Entry],
    book: Book,
    begun: Begun,
    view: ServerView,
) -> tuple[dict[int, Treated], Book]:
    """Return what is used of a round's conversions, and the book in which they await their truth.

    Args:
        treated: Estimates with the notes of their conversions, and what others fell back to, by
            the index of their update.
        updates: The updates of the round.
        requests: What was fitted.
        conversions: What became of it.
        clients: What was known of the clients before.
        book: The state of the calibration.
        begun: The round.
        view: The server.
    """
    found = dict(treated)
    if not begun.settings.enabled:
        return found, book
    book = {**book, "conversions": book["conversions"] + len(conversions)}
    for i in sorted(conversions, key=lambda i: updates[i].key, reverse=True):  # newest first
        stale, conversion, (estimate, note) = updates[i], conversions[i], found[i]
        if note.kind != "converted" or estimate is None:
            continue
        client = stale.client_id
        before = clients.get(client, {}).get("count", 0) if conversion.warm else 0
        fitted = max(len(requests[i].past), before) + 1
        shares = shares_of(book["pairs"], stale, view.version, fitted, begun.settings, begun.by)
        book = late_truths.remembered(book, stale, conversion, fitted, begun.by, view)
        update = dataclasses.replace(estimate, delta=mixed(stale.delta, estimate.delta, shares))
        detail = {**note.detail, "share": shares.direction, "norm_share": shares.norm}
        if begun.by:
            detail["by"] = begun.by
        found[i] = (update, dataclasses.replace(note, detail=detail))
    return found, book


def inversion_now(state: State, settings: Calibration, inversion: Inversion) -> Inversion:
    """Return the inversion that conversions use: as it is set, or the best candidate."""
    by = best(_book(state), settings) if settings.enabled else ""
    return inversion_of(by, inversion)


def depth_of(settings: Calibration, inversion: Inversion) -> int:
    """Return how many past updates of a client a fit may use, by any candidate."""
    tried = names(settings) if settings.enabled else ("",)
    return max(inversion_of(name, inversion).history for name in tried) - 1


def bounded(state: State, most: int) -> State:
    """Return the state in which calibration remembers at most `most` clients."""
    if "calibration" not in state:
        return state
    return {**state, "calibration": pruned(state["calibration"], most)}


def _book(state: State) -> Book:
    found: Book = state.get("calibration") or new_book()
    return found
