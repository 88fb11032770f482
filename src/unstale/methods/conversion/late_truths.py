"""Late truths: estimates for slow clients, compared with what these clients sent in the end.

An estimate for version t can be compared once the client's own update from version t arrives,
or one from shortly after it (as in `switching.py`). Until then the server keeps sketches of the
estimate and of the stale update that it was made from: at most `MOST_WAITING` of a client.

If a client took up its next work so late that no update of it fits an estimate, but the server
had stood in for it, then `stand_ins.py` trains the client's old surrogate from the version of
the new update anyway. From that result and from sketches of the last stale update (`last`)
follows what the conversion to that version would have been.

Memory, for each client: at most 2·`MOST_WAITING` + 2 sketches of 8 kB.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from unstale.inversion import Conversion
from unstale.methods.conversion.calibration import pair_of
from unstale.methods.conversion.calibration_book import Book, note_of, with_pair
from unstale.methods.conversion.sketch import sketch
from unstale.params import Params, flatten
from unstale.updates import Note, ServerView, Update

# Estimates of a client that are kept for comparison.
MOST_WAITING = 8
# How far the version of a true update may be from that of an estimate, as a share of the
# staleness; the default of `Switching.match_window`.
MATCH_WINDOW = 0.1

Waiting = Mapping[str, Any]


def compared(updates: Sequence[Update], book: Book, now: int) -> tuple[Book, list[Note]]:
    """Compare what arrived with earlier estimates for the same clients and versions.

    Args:
        updates: The updates of the round.
        book: The state of the calibration.
        now: The current version.

    Returns:
        The book with a pair for each comparison, and the notes of them.
    """
    notes: list[Note] = []
    for update in sorted(updates, key=lambda u: u.key):
        waiting = book["waiting"].get(update.client_id)
        if not waiting or update.stand_in:
            continue
        base = update.base_version
        due = [w for w in waiting if w["first"] <= base <= w["until"] and w["target"] < now]
        # A client's updates arrive in order, so earlier estimates will not be compared any more.
        left = [w for w in waiting if w["first"] > base]
        book = {**book, "waiting": {**book["waiting"], update.client_id: left}}
        if due:
            found = due[-1]  # the nearest version
            book, note = _recorded(book, update, found, found["estimate"], found["target"])
            notes.extend(note)
    return book, notes


def checked(
    update: Update, change: Params, book: Book, notes: Iterable[Note], residual: bool
) -> tuple[Book, list[Note]]:
    """Compare a client's update with the conversion that its old surrogate would have given.

    Args:
        update: The client's own update.
        change: What training the client's old surrogate from the update's base changes.
        book: The state of the calibration.
        notes: The comparisons of this round; an update that is among them has served already.
        residual: Whether conversions add what the surrogate does not explain.

    Returns:
        The book with the pair, and its note; as before if there is nothing to compare.
    """
    last = book["last"].get(update.client_id)
    if last is None or update.base_version <= last["version"]:
        return book, []
    if any((n.client_id, n.base_version) == update.key for n in notes):
        return book, []
    estimate = sketch(flatten(change))
    if residual:
        stale, explained = last["stale"].double(), last["explained"].double()
        size = float(explained @ explained)
        rest = min(max(float(estimate @ explained) / size, 0.0), 1.0) if size > 0 else 0.0
        estimate = estimate + rest * (stale - explained)
    return _recorded(book, update, last, estimate, update.base_version)


def remembered(
    book: Book, update: Update, conversion: Conversion, updates: int, by: str, view: ServerView
) -> Book:
    """Return the book in which an estimate waits for its truth.

    Args:
        book: The state of the calibration.
        update: The stale update.
        conversion: Its conversion, which succeeded.
        updates: How many updates the surrogate was fitted to.
        by: The candidate that the surrogate was fitted by.
        view: The server.
    """
    client, version, now = update.client_id, update.base_version, view.version
    stale = _kept(update.delta)
    about = {"version": version, "updates": updates, "by": by, "stale": stale}
    waiting, last = list(book["waiting"].get(client, ())), book["last"].get(client, {})
    staleness = update.staleness(now)
    # Spread over the time until the first truth arrives.
    spaced = not waiting or (now - waiting[-1]["target"]) * MOST_WAITING >= staleness
    if len(waiting) < MOST_WAITING and spaced and now not in {w["target"] for w in waiting}:
        span = max(1, int(MATCH_WINDOW * staleness))
        # While the update was awaiting its fit, its client may have started its next work.
        ahead = view.tools.prefits.get(update.key)
        first = now if ahead is None else min(max(ahead.since, now - span), now)
        window = {"target": now, "first": first, "until": now + span}
        waiting.append({**about, **window, "estimate": _kept(conversion.delta)})
        book = {**book, "waiting": {**book["waiting"], client: waiting}}
    if version >= last.get("version", -1):
        more = {} if conversion.explained is None else {"explained": _kept(conversion.explained)}
        book = {**book, "last": {**book["last"], client: {**about, **more}}}
    return book


def _recorded(
    book: Book, update: Update, of: Waiting, estimate: Tensor, target: int
) -> tuple[Book, list[Note]]:
    pair = pair_of(
        of["stale"],
        estimate,
        sketch(flatten(update.delta)),
        lag=target - of["version"],
        updates=of["updates"],
        fitted=of["version"],
        by=of["by"],
        late=True,
    )
    if pair is None:
        return book, []
    note = note_of(update.client_id, update.base_version, pair)
    return with_pair(book, update.client_id, pair), [note]


def _kept(params: Params) -> Tensor:
    return sketch(flatten(params)).to(torch.float32)
