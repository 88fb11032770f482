"""Whether clients train by the recipe that the server assumes.

Conversion repeats a client's training on a surrogate, by `LocalSpec`. If the client trains by
another recipe, a surrogate still fits its update, but predicts its next ones badly. So some fast
clients are checked in their first rounds. Surrogates are fitted to one update of a client: one by
the recipe as it is, and one each by recipes of a third and of three times the learning rate, and
by the other optimizer (`recipe_fits.py`). The client's next fresh updates show which of them
predicts best (`recipe_verdict.py`). If it seems to be another one, the client is looked at again,
by fits four times as long to a newer update. A client is reported if they say so, too.

What cannot be seen: a learning rate, a number of steps or a momentum that moves the weights less
than about twice as far or half as far. The surrogate makes up for it, and conversion suffers
little. These three cannot be told from each other either: to the server all are how far a client
goes.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from unstale.executors import WorkerError
from unstale.inversion import Inversion
from unstale.inversion.target import size_fault
from unstale.methods.conversion.recipe_fits import entries_of, errors_of
from unstale.methods.conversion.recipe_verdict import compared, verdict
from unstale.methods.conversion.settings import RecipeCheck
from unstale.params import norm
from unstale.training.token_models import without_embedding
from unstale.updates import Note, ServerView, Update

# The state of the check: `clients` under check, each with `look` (1 or 2), `version`,
# `num_examples`, `last` (the version of its last comparison), `losses` and `surrogates` by recipe,
# `scores` (one table by recipe for each comparison) and `lr` of each recipe; and `done`, the
# verdicts by client: the name of a recipe, or "" for the assumed one.
Book = Mapping[str, Any]

COMPARISONS = {1: 1, 2: 3}
"""Predictions before the verdict of a first and of a second look."""
MIN_LAG = 2
"""Versions between the fit and the first prediction; nearer ones tell less."""
MOST_AT_ONCE = 4
"""Clients that are begun in one round."""


def check_recipe(
    updates: Sequence[Update],
    book: Book | None,
    view: ServerView,
    settings: RecipeCheck,
    inversion: Inversion,
) -> tuple[Book, list[Note]]:
    """Compare clients under check with what they sent, and begin with others.

    Args:
        updates: The updates of the round.
        book: The state of the check; None before the first round.
        view: The server.
        settings: How many clients are checked.
        inversion: How surrogates are fitted.

    Returns:
        The state, and a note for each client that trains by another recipe.
    """
    book = book or {"clients": {}, "done": {}}
    model = view.tools.model
    if len(book["done"]) >= settings.clients or model is None or view.tools.inputs is None:
        return book, []
    fresh = {
        u.client_id: u
        for u in sorted(updates, key=lambda u: u.key)
        if u.staleness(view.version) == 0
        and not u.stand_in
        and size_fault(without_embedding(model, u.delta), without_embedding(model, view.params))
        is None
    }
    book, unclear, notes = _compared(book, fresh, view, inversion, model)
    known = {*book["clients"], *book["done"]}
    new = [client for client in _outlying(fresh) if client not in {*known, *unclear}]
    # The first version is like no other.
    room = min(settings.clients - len(known | {*unclear}), MOST_AT_ONCE) if view.version else 0
    looks = ((unclear, 2), (new[: max(room, 0)], 1))
    begun: dict[str, Any] = {}
    for clients, look in looks:
        try:
            begun |= entries_of([fresh[c] for c in clients], view, inversion, model, look)
        except WorkerError:  # nothing is lost: the clients will come again
            continue
    return {**book, "clients": dict(sorted({**book["clients"], **begun}.items()))}, notes


def _outlying(fresh: Mapping[str, Update]) -> list[str]:
    """Return clients, those first whose updates are longest or shortest for their round."""
    sizes = {client: math.log(norm(update.delta)) for client, update in fresh.items()}
    middle = sorted(sizes.values())[len(sizes) // 2] if sizes else 0.0
    return sorted(sizes, key=lambda client: (-abs(sizes[client] - middle), client))


def _compared(
    book: Book,
    fresh: Mapping[str, Update],
    view: ServerView,
    inversion: Inversion,
    model: nn.Module,
) -> tuple[Book, list[str], list[Note]]:
    """Compare what surrogates predict for this version with what clients sent.

    Returns:
        The state, the clients that need a second look, and the notes.
    """
    clients, done = dict(book["clients"]), dict(book["done"])
    unclear: list[str] = []
    notes: list[Note] = []
    for client in sorted(set(clients) & set(fresh)):
        entry = clients[client]
        if view.version < entry["version"] + MIN_LAG or view.version == entry["last"]:
            continue
        errors = errors_of(entry, fresh[client], view, inversion, model)
        scores = [*entry["scores"], compared(errors)]
        clients[client] = {**entry, "scores": scores, "last": view.version}
        if len(scores) < COMPARISONS[entry["look"]]:
            continue
        del clients[client]
        found = verdict(entry["losses"], scores)
        if found.needs_second_look(entry["look"]):
            unclear.append(client)
            continue
        reported = found.is_reported(entry["look"])
        done[client] = found.recipe if reported else ""
        if reported:
            detail = {"found": found.recipe, "score": found.score}
            notes.append(Note("other_recipe", client, view.version, detail))
    return {**book, "clients": clients, "done": dict(sorted(done.items()))}, unclear, notes
