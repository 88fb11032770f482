"""What all comparators do: data from the client's model, then an estimate as conversion makes it.

For each stale update: the client's model is put together from base version and update, a
source makes samples that this model classifies as wanted, and the current global model is
trained on them by the client's recipe. Only the source differs between comparators.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from unstale.inversion import (
    Conversion,
    Fit,
    InputSpec,
    Request,
    Surrogate,
    estimate_many,
)
from unstale.inversion.arithmetic import arithmetic
from unstale.inversion.target import size_fault
from unstale.methods.base import fall_back
from unstale.methods.comparators.labels import labels_by
from unstale.methods.comparators.surrogate_data import SurrogateData
from unstale.methods.comparators.teacher import Teacher
from unstale.methods.conversion import client_memory
from unstale.methods.conversion.converted import converted
from unstale.methods.conversion.parallel import needed
from unstale.methods.conversion.selection import Treated, select
from unstale.params import Params, norm
from unstale.seeding import derive
from unstale.updates import Outcome, ServerView, State, Update

# A label as logits: the softmax gives every other class less than rounding.
_SURE = 50.0


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """What a source made for one client."""

    x: Tensor
    """Inputs `[samples, ...]`."""
    losses: tuple[float, ...]
    """Its objective at each iteration."""
    kept: Mapping[str, Any] = field(default_factory=dict)
    """What it wants to find in the client's entry next time, beside the samples."""


class Source(Protocol):
    """Makes inputs that a client's model classifies as wanted."""

    def __call__(
        self,
        teacher: Teacher,
        labels: Tensor,
        inputs: InputSpec,
        seed: int,
        before: client_memory.Entry,
    ) -> Made:
        """Return inputs for these labels.

        Args:
            teacher: The client's model.
            labels: The class of each sample, sorted.
            inputs: What one input looks like.
            seed: Seeds all noise.
            before: What was kept of the client; empty for a cold start.
        """
        ...


def estimated(
    updates: Sequence[Update],
    state: State,
    view: ServerView,
    settings: SurrogateData,
    source: Source,
    name: str,
    fallback: str,
) -> Outcome:
    """Return the round's updates with an estimate in place of each stale one.

    Args:
        updates: The updates of the round.
        state: The state, with an entry for each client.
        view: The server.
        settings: Samples, labels, and what is trusted.
        source: Makes the samples.
        name: Seeds the source's noise, with client and base version.
        fallback: What to do with an update whose base version is gone.
    """
    late = [i for i, u in enumerate(updates) if u.staleness(view.version) > 0]
    if not late:
        return Outcome(tuple(updates), state)
    model, inputs = needed(view)
    known, treated = select(updates, late, {}, view, most=None, fallback=fallback)
    requests = {
        i: Request(
            base,
            update.delta,
            update.num_examples,
            seed=derive(view.rng.initial_seed(), name, update.client_id, update.base_version),
        )
        for i, (update, base) in known.items()
    }
    fits: dict[int, Fit] = {}
    kept: dict[int, Mapping[str, Any]] = {}
    for i, request in requests.items():
        entry = state["clients"].get(updates[i].client_id, {}) if settings.warm_start else {}
        fits[i], kept[i] = _made(updates[i], request, entry, view, inputs, settings, source)
    conversions = estimate_many(
        model,
        list(requests.values()),
        [fits[i] for i in requests],
        current=view.params,
        local=view.local,
        settings=settings.training,
    )
    clients = dict(state["clients"])
    for i, conversion in zip(requests, conversions, strict=True):
        treated[i] = _used(updates[i], conversion, kept[i], clients, view.version, settings)
    results = [treated.get(i, (update, None)) for i, update in enumerate(updates)]
    return Outcome(
        tuple(update for update, _ in results if update is not None),
        {**state, "clients": client_memory.latest(clients, settings.max_clients)},
        tuple(note for _, note in results if note is not None),
    )


def _made(
    update: Update,
    request: Request,
    entry: client_memory.Entry,
    view: ServerView,
    inputs: InputSpec,
    settings: SurrogateData,
    source: Source,
) -> tuple[Fit, Mapping[str, Any]]:
    """Return the samples for one update as a fit, and what the source wants to keep."""
    if fault := size_fault(request.delta, request.base):
        return Fit(None, math.nan, (), 0.0, reason=f"the update is {fault}"), {}
    began = time.perf_counter()
    teacher = Teacher.of(needed(view)[0], request.base, request.delta, view.local)
    teacher.check(inputs)
    samples = settings.training.num_samples(update.num_examples)
    labels = labels_by(settings.shares_of(update, inputs.classes), samples)
    with arithmetic(teacher.like.device, "float32"):
        made = source(teacher, labels.to(teacher.like.device), inputs, request.seed, entry)
        surrogate = Surrogate(made.x, _logits(teacher, made.x, labels, inputs, settings))
    seconds = time.perf_counter() - began
    loss = made.losses[-1] if made.losses else math.nan
    warm = "x" in entry
    if not (surrogate.fits(inputs) and math.isfinite(loss)):
        reason = "the inputs that were made are not finite"
        return Fit(None, loss, made.losses, seconds, warm, reason), {}
    return Fit(surrogate, loss, made.losses, seconds, warm), made.kept


def _logits(
    teacher: Teacher, x: Tensor, labels: Tensor, inputs: InputSpec, settings: SurrogateData
) -> Tensor:
    if settings.soft_labels:
        with torch.no_grad():
            return teacher(x)
    return _SURE * F.one_hot(labels, inputs.classes).to(x)


def _used(
    update: Update,
    conversion: Conversion,
    kept: Mapping[str, Any],
    clients: dict[str, client_memory.Entry],
    version: int,
    settings: SurrogateData,
) -> Treated:
    """Return what is used of an update, and change its client's entry."""
    entry = clients.get(update.client_id, {})
    if fault := _fault(update.delta, conversion, settings.max_growth):
        # The next start should not be what led to this. Without an iteration the update itself
        # was at fault.
        if conversion.iterations:
            clients.pop(update.client_id, None)
        return fall_back(update, "keep", fault)
    after = client_memory.remember(entry, update, conversion.surrogate, version)
    if after["version"] == update.base_version:
        after |= kept
    clients[update.client_id] = after
    return converted(update, conversion, entry.get("count", 0))


def _fault(delta: Params, conversion: Conversion, max_growth: float) -> str:
    """Return why the estimate should not be used; empty if it should."""
    if not conversion.ok:
        return conversion.reason
    growth = norm(conversion.delta) / norm(delta)
    if max_growth and not growth <= max_growth:
        return f"not trusted: the estimate is {growth:.3g} times as large as the update"
    return ""


def surrogates_in(state: State) -> dict[str, Surrogate]:
    """Return the clients' samples in a comparator's state."""
    found = {c: client_memory.surrogate_of(entry) for c, entry in state["clients"].items()}
    return {client: samples for client, samples in found.items() if samples is not None}
