r"""Whether clients train by the recipe that the server assumes.

Conversion repeats a client's training on a surrogate, by `LocalSpec`. If the client trains by
another recipe, a surrogate still fits its update, but predicts its next ones badly. So some fast
clients are checked in their first rounds. Surrogates are fitted to one update of a client: one by
the recipe as it is, and one each by recipes of a third and of three times the learning rate, and
by the other optimizer. The client's next fresh updates show which of them predicts best. The score
of another recipe r against the assumed one s is

$$ \ln\frac{L_s}{L_r} + \frac{1}{m} \sum_{i=1}^{m} \ln\frac{E_s(i)}{E_r(i)}, $$

where L is the loss of the fit and E(i) the relative error of the i-th prediction. Above
`MIN_SCORE` the client is reported, with the recipe of the largest score.

What cannot be seen: a learning rate, a number of steps or a momentum that moves the weights less
than about twice as far or half as far. The surrogate makes up for it, and conversion suffers
little. These three cannot be told from each other either: to the server all are how far a client
goes.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from unstale.executors import WorkerError
from unstale.inversion import (
    Inversion,
    Request,
    Surrogate,
    SurrogateTraining,
    estimate_with,
)
from unstale.inversion.target import size_fault
from unstale.methods.conversion.parallel import fit_parallel
from unstale.methods.conversion.settings import RecipeCheck
from unstale.params import Params, flatten, norm, subtract
from unstale.seeding import derive
from unstale.training.spec import LocalSpec
from unstale.training.token_models import without_embedding
from unstale.updates import Note, ServerView, Update

# The state of the check: `clients` under check, each with `version`, `num_examples`, `last` (the
# version of its last comparison), `losses` and `surrogates` by recipe, `scores` (one table by
# recipe for each comparison) and `lr` (that of the other optimizer); and `done`, the verdicts by
# client: the name of a recipe, or "" for the assumed one.
Book = Mapping[str, Any]

ASSUMED = "assumed"
FACTOR = 3.0
"""How far the learning rates of the other recipes lie from the assumed one."""
MIN_SCORE = 0.2
"""Honest clients scored −0.09 at most (105 of them, tuning seeds), clients with a third or three
times the learning rate nearly all above this."""
COMPARISONS = 3
"""Predictions before a verdict."""
MIN_LAG = 2
"""Versions between the fit and the first prediction; nearer ones tell less."""
MOST_AT_ONCE = 4
"""Clients that are begun in one round."""
# Errors of predictions as they count: better ones are chance, worse ones are all as bad.
_LEAST, _MOST = 0.01, 2.0
# Of the other optimizer, whatever an update looks like.
_LEAST_LR = 1e-12
# Small fits: which recipe is better shows long before a surrogate is good.
_SMALL: dict[str, Any] = {
    "iterations": 40,
    "min_samples": 4,
    "max_samples": 16,
    "history": 1,
    "start": "grey",
    "residual": False,
    "max_loss": 1e3,
}


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
    model, inputs = view.tools.model, view.tools.inputs
    if len(book["done"]) >= settings.clients or model is None or inputs is None:
        return book, []
    fresh = {
        u.client_id: u
        for u in sorted(updates, key=lambda u: u.key)
        if u.staleness(view.version) == 0
        and not u.stand_in
        and size_fault(without_embedding(model, u.delta), without_embedding(model, view.params))
        is None
    }
    # Whoever asks for shorter fits than these gets them here, too.
    iterations = min(_SMALL["iterations"], inversion.iterations)
    small = dataclasses.replace(inversion, **{**_SMALL, "iterations": iterations})
    book, notes = _compared(book, fresh, view, small, model)
    known = {*book["clients"], *book["done"]}
    new = [client for client in _outlying(fresh) if client not in known]
    room = min(settings.clients - len(known), MOST_AT_ONCE)
    if not view.version or room <= 0:  # the first version is like no other
        return book, notes
    try:
        begun = _begun([fresh[client] for client in new[:room]], view, small, model)
    except WorkerError:  # nothing is lost: the clients will come again
        begun = {}
    return {**book, "clients": dict(sorted({**book["clients"], **begun}.items()))}, notes


def other_recipes(local: LocalSpec, delta: Params, num_examples: int) -> dict[str, LocalSpec]:
    """Return the recipes that an update is compared by: the assumed one first.

    The learning rate of the other optimizer is what moves the weights as far as the update did.

    Example:
        >>> list(other_recipes(LocalSpec(), {"w": nn.Parameter().new_ones(3)}, 10))
        ['assumed', 'slower', 'faster', 'adam']
    """
    steps = local.num_steps(num_examples)
    entries = flatten(delta).abs().double()  # a stranger's may be huge
    moved = float(entries[entries > 0].mean())
    if local.optimizer == "sgd":
        name, lr = "adam", moved / steps
    else:  # the gradients of a common loss have a norm of about 1 in all
        name, lr = "sgd", norm(delta) / steps
    lr = min(max(lr, _LEAST_LR), 1 / _LEAST_LR) if math.isfinite(lr) else 1.0
    return {
        ASSUMED: local,
        "slower": dataclasses.replace(local, lr=local.lr / FACTOR),
        "faster": dataclasses.replace(local, lr=local.lr * FACTOR),
        name: dataclasses.replace(local, optimizer=name, lr=lr, momentum=0.0),
    }


def _outlying(fresh: Mapping[str, Update]) -> list[str]:
    """Return clients, those first whose updates are longest or shortest for their round."""
    sizes = {client: math.log(norm(update.delta)) for client, update in fresh.items()}
    middle = sorted(sizes.values())[len(sizes) // 2] if sizes else 0.0
    return sorted(sizes, key=lambda client: (-abs(sizes[client] - middle), client))


def _begun(
    updates: Sequence[Update], view: ServerView, inversion: Inversion, model: nn.Module
) -> dict[str, dict[str, Any]]:
    """Fit a surrogate by each recipe to an update of each client; return their entries."""
    inputs = view.tools.inputs
    if not updates or inputs is None:
        return {}
    requests: dict[str, Request] = {}
    groups: dict[tuple[str, LocalSpec], list[str]] = {}  # what can be fitted at once
    entries: dict[str, dict[str, Any]] = {}
    for update in updates:
        client, delta = update.client_id, without_embedding(model, update.delta)
        seed = derive(view.rng.initial_seed(), "recipe", client, view.version)
        requests[client] = Request(view.params, update.delta, update.num_examples, seed=seed)
        recipes = other_recipes(view.local, delta, update.num_examples)
        for name, local in recipes.items():
            groups.setdefault((name, local), []).append(client)
        entries[client] = {
            "version": view.version,
            "last": view.version,
            "num_examples": update.num_examples,
            "lr": {name: local.lr for name, local in recipes.items()},
            "losses": {},
            "surrogates": {},
            "scores": [],
        }
    for (name, local), clients in groups.items():
        by = dataclasses.replace(view, local=local)
        asked = [requests[client] for client in clients]
        fits = fit_parallel(asked, model, inputs, inversion, by)
        for client, fit in zip(clients, fits, strict=True):
            made = fit.surrogate
            kept = {} if made is None else {"x": made.x, "y_logits": made.y_logits}
            entries[client]["losses"][name] = fit.loss if math.isfinite(fit.loss) else _MOST
            entries[client]["surrogates"][name] = kept
    return entries


def _compared(
    book: Book,
    fresh: Mapping[str, Update],
    view: ServerView,
    inversion: Inversion,
    model: nn.Module,
) -> tuple[Book, list[Note]]:
    """Compare what surrogates predict for this version with what clients sent."""
    clients, done = dict(book["clients"]), dict(book["done"])
    notes: list[Note] = []
    for client in sorted(set(clients) & set(fresh)):
        entry = clients[client]
        if view.version < entry["version"] + MIN_LAG or view.version == entry["last"]:
            continue
        errors = _errors(entry, fresh[client], view, inversion, model)
        scores = [
            *entry["scores"],
            {n: math.log(errors[ASSUMED] / e) for n, e in errors.items() if n != ASSUMED},
        ]
        clients[client] = {**entry, "scores": scores, "last": view.version}
        if len(scores) < COMPARISONS:
            continue
        del clients[client]
        found, score = _verdict(entry["losses"], scores)
        done[client] = found
        if found:
            detail = {"found": found, "score": score}
            notes.append(Note("other_recipe", client, view.version, detail))
    return {**book, "clients": clients, "done": dict(sorted(done.items()))}, notes


def _errors(
    entry: Mapping[str, Any],
    update: Update,
    view: ServerView,
    inversion: Inversion,
    model: nn.Module,
) -> dict[str, float]:
    """Return the relative error of each recipe's prediction of an update."""
    truth = without_embedding(model, update.delta)
    recipes = other_recipes(view.local, truth, entry["num_examples"])
    errors = dict.fromkeys(recipes, _MOST)
    fitted = [name for name in recipes if entry["surrogates"].get(name)]
    trainings = [
        SurrogateTraining(
            view.params,
            Surrogate(entry["surrogates"][name]["x"], entry["surrogates"][name]["y_logits"]),
            inversion.local_for(
                dataclasses.replace(recipes[name], lr=entry["lr"][name]), entry["num_examples"]
            ),
        )
        for name in fitted
    ]
    _, changes = estimate_with(
        model, [], [], trainings, current=view.params, local=view.local, settings=inversion
    )
    for name, change in zip(fitted, changes, strict=True):
        found = norm(subtract(without_embedding(model, change), truth)) / norm(truth)
        errors[name] = min(max(found, _LEAST), _MOST) if math.isfinite(found) else _MOST
    return errors


def _verdict(
    losses: Mapping[str, float], scores: Sequence[Mapping[str, float]]
) -> tuple[str, float]:
    """Return the recipe that explains a client best, "" for the assumed one, and its score."""
    total = {
        name: math.log(max(losses[ASSUMED], _LEAST) / max(losses[name], _LEAST))
        + sum(score[name] for score in scores) / len(scores)
        for name in scores[0]
    }
    best = max(sorted(total), key=total.__getitem__)
    return (best, total[best]) if total[best] > MIN_SCORE else ("", total[best])
