"""The server's step, a pure function that all engines use.

    check → compensate → aggregate → new state

Updates are checked when they are submitted (`checks.py`); the rest is here.
"""

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch

from unstale.methods import Method
from unstale.params import Params, add, flatten
from unstale.server.report import Report
from unstale.training.local import LocalSpec
from unstale.updates import Note, ServerView, State, TrainingTools, Update


@dataclass(frozen=True, slots=True, eq=False)
class ServerState:
    """The state of the server between two steps."""

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
    absent: Iterable[str] = (),
    clients: Mapping[str, float] | None = None,
) -> StepResult:
    """Compensate and aggregate the updates of one round.

    Args:
        state: The state after the previous step.
        arrivals: The updates of the round, in any order.
        method: How updates are compensated and aggregated.
        local: The training recipe that clients run.
        history: Returns the weights of an earlier version, or None if they are no longer kept.
        rng: The only source of randomness.
        kept_versions: The versions that `history` still has.
        tools: For methods that train the model on the server, such as `convert`.
        absent: Clients that the round drew but that are at work or away. A client whose own
            update has arrived is not absent, so at most one of the two is used.
        clients: All clients that the engine has registered, with the latency of each in
            versions; for methods that make tiers of them.

    Returns:
        The new state, whose version is one higher, and the report. The weights stay the same
        if there are no updates, if all weights are zero, or if the result is not finite.
    """
    began = time.perf_counter()
    # 1. Sort, so that the order of arrival does not change the result, not even its last bits.
    ordered = sorted(arrivals, key=lambda update: update.key)
    missing = {*absent} - {update.client_id for update in ordered}
    view = ServerView(
        state.version,
        state.params,
        history,
        local,
        rng,
        frozenset(kept_versions),
        tools or TrainingTools(),
        tuple(sorted(missing)),
        clients or {},
    )
    # 2. Compensate.
    outcome = method.compensator.apply(ordered, state.compensator, view)
    updates, repairs = _only_finite(outcome.updates, ordered)
    # 3. Aggregate.
    combined = method.aggregator.apply(updates, state.aggregator, view)
    notes = [*outcome.notes, *repairs, *combined.notes]
    # 4. Make the new state.
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
        absent=view.absent,
        seconds=time.perf_counter() - began,
    )
    return StepResult(after, report)


def _only_finite(
    updates: Sequence[Update], arrivals: Sequence[Update]
) -> tuple[tuple[Update, ...], list[Note]]:
    """Replace updates that compensation made non-finite by the updates as they arrived."""
    came = {u.key: u for u in arrivals}
    kept: list[Update] = []
    notes: list[Note] = []
    for update in updates:
        original = came.get(update.key)
        if original is not None and update.delta is original.delta:
            kept.append(update)  # unchanged, and checked when it was submitted
        elif bool(torch.isfinite(flatten(update.delta)).all()):
            kept.append(update)
        else:
            notes.append(
                Note(
                    "fallback",
                    update.client_id,
                    update.base_version,
                    {
                        "did": "keep" if original else "drop",
                        "reason": "the compensated update was not finite",
                    },
                )
            )
            if original is not None:
                # Keep the weight: another part of a chain may have lowered it.
                kept.append(dataclasses.replace(original, weight=update.weight))
    return tuple(kept), notes
