"""The server's step: arrivals in, new state and report out. Pure; every engine calls it.

    check → compensate → aggregate → new state

Checking happens when an update is submitted (`checks.py`); the rest is here.
"""

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from unstale.methods import Method
from unstale.params import Params, add, flatten
from unstale.server.report import Report
from unstale.training.local import LocalSpec
from unstale.updates import Note, ServerView, State, TrainingTools, Update


@dataclass(frozen=True, slots=True, eq=False)
class ServerState:
    """All that one step hands to the next."""

    version: int
    params: Params
    compensator: State
    aggregator: State


@dataclass(frozen=True, slots=True, eq=False)
class StepResult:
    """The state after a step, and its report."""

    state: ServerState
    report: Report


def initial_state(params: Params, method: Method) -> ServerState:
    """Return the state before the first step: version 0."""
    return ServerState(0, params, method.compensator.init(), method.aggregator.init())


def step(
    state: ServerState,
    arrivals: Sequence[Update],
    *,
    method: Method,
    local: LocalSpec,
    history: Callable[[int], Params | None],
    rng: torch.Generator,
    kept_versions: Iterable[int] = (),
    tools: TrainingTools | None = None,
) -> StepResult:
    """Take one round's arrivals and return the next state with a report.

    Args:
        state: What the step before returned.
        arrivals: The round's updates, in any order.
        method: How updates are compensated and aggregated.
        local: The recipe that clients run.
        history: The weights of an earlier version, or None if they are gone.
        rng: The only source of randomness.
        kept_versions: The versions that `history` still has.
        tools: For methods that train the model themselves, such as `convert`.

    A round without updates, or with updates of no weight, leaves the weights as they
    are and still makes a new version. So does one whose result would not be finite.
    """
    began = time.perf_counter()
    # 1. One order for all, so that who came first cannot change a bit of the result.
    ordered = sorted(arrivals, key=lambda update: update.key)
    view = ServerView(
        state.version,
        state.params,
        history,
        local,
        rng,
        frozenset(kept_versions),
        tools or TrainingTools(),
    )
    # 2. Compensate.
    outcome = method.compensator.apply(ordered, state.compensator, view)
    updates, repairs = _only_finite(outcome.updates, ordered)
    # 3. Aggregate.
    combined = method.aggregator.apply(updates, state.aggregator, view)
    notes = [*outcome.notes, *repairs, *combined.notes]
    # 4. The new state.
    params, changed = state.params, False
    if combined.delta is not None:
        moved = add(state.params, combined.delta)
        changed = bool(torch.isfinite(flatten(moved)).all())
        if changed:
            params = moved
        else:
            notes.append(Note("discarded", "", state.version, {"reason": "not finite"}))
    after = ServerState(state.version + 1, params, outcome.state, combined.state)
    report = Report(
        version=after.version,
        staleness=tuple(u.staleness(state.version) for u in ordered),
        notes=tuple(notes),
        updates=updates,
        changed=changed,
        seconds=time.perf_counter() - began,
    )
    return StepResult(after, report)


def _only_finite(
    updates: Sequence[Update], arrivals: Sequence[Update]
) -> tuple[tuple[Update, ...], list[Note]]:
    """Put the update as it came in the place of one that compensation made non-finite."""
    came = {u.key: u for u in arrivals}
    kept: list[Update] = []
    notes: list[Note] = []
    for update in updates:
        original = came.get(update.key)
        if original is not None and update.delta is original.delta:
            kept.append(update)  # untouched, and checked when it came
        elif bool(torch.isfinite(flatten(update.delta)).all()):
            kept.append(update)
        else:
            notes.append(
                Note(
                    "fallback",
                    update.client_id,
                    update.base_version,
                    {"did": "keep", "reason": "the compensated update was not finite"},
                )
            )
            if original is not None:
                # The weight stays: a chain may have lowered it, and it was not at fault.
                kept.append(dataclasses.replace(original, weight=update.weight))
    return tuple(kept), notes
