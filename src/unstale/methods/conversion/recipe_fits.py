"""Small fits that tell recipes apart: one surrogate by each recipe that a client may have used.

All start from the same update of the client. What each predicts of the client's later updates is
compared with what comes.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from unstale.inversion import Inversion, Request, Surrogate, SurrogateTraining, estimate_with
from unstale.methods.conversion.parallel import fit_parallel
from unstale.params import Params, flatten, norm, subtract
from unstale.seeding import derive
from unstale.training.spec import LocalSpec
from unstale.training.token_models import without_embedding
from unstale.updates import ServerView, Update

ASSUMED = "assumed"
FACTOR = 3.0
"""How far the learning rates of the other recipes lie from the assumed one."""
MOST_ERROR = 2.0
"""Errors count up to this: worse ones are all as bad."""
# Of the other optimizer, whatever an update looks like.
_LEAST_LR = 1e-12
# Which recipe is better shows long before a surrogate is good.
SMALL: dict[str, Any] = {
    "iterations": 40,
    "min_samples": 4,
    "max_samples": 16,
    "ensemble": 1,
    "history": 1,
    "start": "grey",
    "residual": False,
    "max_loss": 1e3,
}
LONGER = 4
"""How many times as many iterations, and as many samples, the fits of a second look have."""


def small_fits(inversion: Inversion, look: int) -> Inversion:
    """Return the settings of the fits of a first or a second look.

    Fits of a second look are longer and start as those of conversions do, by default from the best
    of several starts, because a single one may stall. They also have more samples: a few cannot
    follow many steps of a client that comes to fit its data on the way, and a recipe of smaller
    steps explains them better than the right one. Whoever asks for shorter fits or for smaller
    surrogates gets them here, too.

    Example:
        >>> first, second = (small_fits(Inversion(), look) for look in (1, 2))
        >>> second.iterations // first.iterations
        4
        >>> small_fits(Inversion(iterations=1), 2).iterations
        1
    """
    if look == 1:
        return dataclasses.replace(
            inversion, **{**SMALL, "iterations": min(SMALL["iterations"], inversion.iterations)}
        )
    larger = {
        name: min(LONGER * SMALL[name], getattr(inversion, name))
        for name in ("iterations", "max_samples")
    }
    larger["min_samples"] = min(SMALL["min_samples"], larger["max_samples"])
    return dataclasses.replace(inversion, **{**SMALL, **larger, "start": inversion.start})


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


def entries_of(
    updates: Sequence[Update], view: ServerView, inversion: Inversion, model: nn.Module, look: int
) -> dict[str, dict[str, Any]]:
    """Fit a surrogate by each recipe to an update of each client; return their entries.

    Args:
        updates: One fresh update of each client.
        view: The server.
        inversion: How surrogates are fitted when updates are converted.
        model: The architecture that clients train.
        look: 1 for the first look at a client, 2 for the second.
    """
    inputs = view.tools.inputs
    if not updates or inputs is None:
        return {}
    settings = small_fits(inversion, look)
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
            "look": look,
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
        fits = fit_parallel(asked, model, inputs, settings, by)
        for client, fit in zip(clients, fits, strict=True):
            made = fit.surrogate
            kept = {} if made is None else {"x": made.x, "y_logits": made.y_logits}
            entries[client]["losses"][name] = fit.loss if math.isfinite(fit.loss) else MOST_ERROR
            entries[client]["surrogates"][name] = kept
    return entries


def errors_of(
    entry: Mapping[str, Any],
    update: Update,
    view: ServerView,
    inversion: Inversion,
    model: nn.Module,
) -> dict[str, float]:
    """Return the relative error of each recipe's prediction of an update."""
    settings = small_fits(inversion, entry["look"])
    truth = without_embedding(model, update.delta)
    recipes = other_recipes(view.local, truth, entry["num_examples"])
    errors = dict.fromkeys(recipes, MOST_ERROR)
    fitted = [name for name in recipes if entry["surrogates"].get(name)]
    trainings = [
        SurrogateTraining(
            view.params,
            Surrogate(entry["surrogates"][name]["x"], entry["surrogates"][name]["y_logits"]),
            settings.local_for(
                dataclasses.replace(recipes[name], lr=entry["lr"][name]), entry["num_examples"]
            ),
        )
        for name in fitted
    ]
    _, changes = estimate_with(
        model, [], [], trainings, current=view.params, local=view.local, settings=settings
    )
    for name, change in zip(fitted, changes, strict=True):
        found = norm(subtract(without_embedding(model, change), truth)) / norm(truth)
        errors[name] = min(found, MOST_ERROR) if math.isfinite(found) else MOST_ERROR
    return errors
