"""The server's step, a pure function that all engines use.

    check → compensate → aggregate → move the weights → new state

Updates are checked when they are submitted (`checks.py`); the rest is here.
"""

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from unstale.methods import Method
from unstale.methods.server_optimizers import Plain, ServerOptimizer
from unstale.params import Params, all_finite
from unstale.server.report import Report
from unstale.server.turns import take_turns
from unstale.training.client import averaged_statistics, trained_statistics, without
from unstale.training.local import LocalSpec
from unstale.updates import Note, ServerView, State, TrainingTools, Update


@dataclass(frozen=True, slots=True, eq=False)
class ServerState:
    """The state of the server between two steps."""

    version: int
    params: Params
    compensator: State
    aggregator: State
    optimizer: State = field(default_factory=dict)
    """Of the server optimizer; empty for the plain one."""
    owed: frozenset[str] = frozenset()
    """Clients that are stood in for when they are asked next: see `turns.py`."""


@dataclass(frozen=True, slots=True, eq=False)
class StepResult:
    """The state after a step, and its report."""

    state: ServerState
    report: Report


def initial_state(
    params: Params, method: Method, optimizer: ServerOptimizer | None = None
) -> ServerState:
    """Return the state before the first step: version 0."""
    of_optimizer = (optimizer or Plain()).init()
    return ServerState(0, params, method.compensator.init(), method.aggregator.init(), of_optimizer)


def step(
    state: ServerState,
    arrivals: Sequence[Update],
    *,
    method: Method,
    optimizer: ServerOptimizer | None = None,
    local: LocalSpec,
    history: Callable[[int], Params | None],
    rng: torch.Generator,
    kept_versions: Iterable[int] = (),
    tools: TrainingTools | None = None,
    absent: Iterable[str] | None = (),
    asked: Iterable[str] = (),
    clients: Mapping[str, float] | None = None,
    statistics: Iterable[str] = (),
) -> StepResult:
    """Compensate and aggregate the updates of one round.

    Args:
        state: The state after the previous step.
        arrivals: The updates of the round, in any order.
        method: How updates are compensated and aggregated.
        optimizer: How the weights move by what was aggregated; None to add it. In a round
            without a change it is not called, and its state stays.
        local: The training recipe that clients run.
        history: Returns the weights of an earlier version, or None if they are no longer kept.
        rng: The only source of randomness.
        kept_versions: The versions that `history` still has.
        tools: For methods that train the model on the server, such as `convert`.
        absent: Clients that the round drew but that are at work or away. A client whose own
            update has arrived is not absent, so at most one of the two is used. None for a
            round in which nobody is stood in for.
        asked: Clients that have begun to train on the current version and have not answered.
            Those that are owed a turn are stood in for as well.
        clients: All clients that the engine has registered, with the latency of each in
            versions; for methods that make tiers of them.
        statistics: Names among the weights that are running statistics. No method sees them;
            they are averaged over the updates that are used, by their weights.

    Returns:
        The new state, whose version is one higher, and the report. The weights stay the same
        if there are no updates, if all weights are zero, or if the result is not finite.
    """
    began = time.perf_counter()
    # 1. Sort, so that the order of arrival does not change the result, not even its last bits.
    came = sorted(arrivals, key=lambda update: update.key)
    tracked = frozenset(statistics)
    weights, ordered, weights_of = _weights_only(state.params, came, history, tracked)
    answered = [update.client_id for update in ordered]
    turns = take_turns(absent=absent, asked=asked, answered=answered, owed=state.owed)
    view = ServerView(
        state.version,
        weights,
        weights_of,
        local,
        rng,
        frozenset(kept_versions),
        tools or TrainingTools(),
        tuple(sorted(turns.absent)),
        clients or {},
    )
    # 2. Compensate.
    outcome = method.compensator.apply(ordered, state.compensator, view)
    updates, repairs = _only_finite(outcome.updates, ordered)
    # 3. Aggregate.
    combined = method.aggregator.apply(updates, state.aggregator, view)
    notes = [*outcome.notes, *repairs, *combined.notes]
    # 4. Move the weights.
    params, moments, changed = state.params, state.optimizer, False
    if combined.delta is not None:
        moved = (optimizer or Plain()).move(weights, combined.delta, state.optimizer)
        changed = all_finite(moved.params) and all_finite(moved.state)
        if changed:
            averaged = _averaged(state, came, updates, history, tracked) if tracked else {}
            params, moments = {**moved.params, **averaged}, moved.state
        else:
            notes.append(Note("discarded", "", state.version, {"reason": "not finite"}))
    # 5. Make the new state.
    after = ServerState(
        state.version + 1, params, outcome.state, combined.state, moments, turns.owed
    )
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


def _weights_only(
    params: Params,
    arrivals: list[Update],
    history: Callable[[int], Params | None],
    statistics: frozenset[str],
) -> tuple[Params, list[Update], Callable[[int], Params | None]]:
    """Return weights, updates and history without running statistics, if there are any."""
    if not statistics:
        return params, arrivals, history

    def weights_of(version: int) -> Params | None:
        kept = history(version)
        return None if kept is None else without(kept, statistics)

    updates = [dataclasses.replace(u, delta=without(u.delta, statistics)) for u in arrivals]
    return without(params, statistics), updates, weights_of


def _averaged(
    state: ServerState,
    arrivals: Sequence[Update],
    used: Sequence[Update],
    history: Callable[[int], Params | None],
    statistics: frozenset[str],
) -> dict[str, torch.Tensor]:
    """Return the mean of the running statistics of the clients whose updates were used."""
    weight_of = {u.key: u.num_examples * u.weight for u in used if not u.stand_in}
    sent: list[tuple[Params, float]] = []
    for update in arrivals:
        is_fresh = update.base_version == state.version
        base = state.params if is_fresh else history(update.base_version)
        if base is not None and update.key in weight_of:
            values = trained_statistics(base, update.delta, statistics)
            sent.append((values, weight_of[update.key]))
    return averaged_statistics({name: state.params[name] for name in sorted(statistics)}, sent)


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
        elif all_finite(update.delta):
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
