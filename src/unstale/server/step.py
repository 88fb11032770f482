"""The server's step: arrivals in, new state and report out. Pure; every engine calls it.

    check → compensate → aggregate → new state

Checking happens when an update is submitted (`checks.py`); the rest is here.
"""

import dataclasses
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from unstale.executors import Executor
from unstale.inversion import InputSpec
from unstale.methods import Method
from unstale.params import Params, add, flatten
from unstale.training.local import LocalSpec
from unstale.updates import Note, Prepared, ServerView, State, Update


@dataclass(frozen=True, slots=True, eq=False)
class ServerState:
    """All that one step hands to the next."""

    version: int
    params: Params
    compensator: State
    aggregator: State


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """What happened in one step."""

    version: int
    """The version that the step made."""
    staleness: tuple[int, ...]
    """The staleness of every arrival, in the order of client and base version."""
    notes: tuple[Note, ...]
    """What was done to which update."""
    updates: tuple[Update, ...] = ()
    """The updates that were aggregated, after compensation."""
    changed: bool = False
    """Whether the weights moved; they stay in a round without usable updates."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Updates refused since the step before, by reason."""
    history: Mapping[str, int] = field(default_factory=dict)
    """Earlier versions kept, and the bytes they take in memory."""
    seconds: float = 0.0
    held: int | None = None
    """Accepted updates that are still prepared in the background; None without one."""

    @property
    def arrivals(self) -> int:
        """How many updates took part."""
        return len(self.staleness)

    def count(self, kind: str) -> int:
        """Return how many notes of a kind there are."""
        return sum(note.kind == kind for note in self.notes)

    def to_json(self) -> dict[str, Any]:
        """Return the report's line: counts and numbers, no tensors."""
        late = [s for s in self.staleness if s > 0]
        counts = Counter(self.staleness)
        return {
            "version": self.version,
            "arrivals": self.arrivals,
            "stale": len(late),
            "staleness": {
                "mean": sum(self.staleness) / self.arrivals if self.arrivals else None,
                "max": max(self.staleness, default=None),
                "counts": {str(s): counts[s] for s in sorted(counts)},
            },
            "changed": self.changed,
            "refused": dict(sorted(self.refused.items())),
            "notes": dict(sorted(Counter(note.kind for note in self.notes).items())),
            "conversions": self.count("converted"),
            "iterations": sum(int(n.detail.get("iterations", 0)) for n in self.notes),
            **_told_in_full(self.notes),
            "history": dict(self.history),
            **({} if self.held is None else {"held": self.held}),
            "seconds": self.seconds,
        }


def _told_in_full(notes: Sequence[Note]) -> dict[str, Any]:
    """Return what a count would not tell, by kind; kinds without a note are left out.

    Seconds are not among it: all but a line's own `seconds` is the same in a repeated run.
    """

    def of(kind: str) -> list[Note]:
        return [note for note in notes if note.kind == kind]

    converted = [
        {
            "client": note.client_id,
            "base_version": note.base_version,
            "loss": _short(note.detail.get("loss")),
            "iterations": note.detail.get("iterations", 0),
            "start": note.detail.get("start", "cold"),
            **(
                {"curve": [[at, _short(loss)] for at, loss in note.detail["curve"]]}
                if "curve" in note.detail
                else {}
            ),
        }
        for note in of("converted")
    ]
    fallbacks = [
        {"client": note.client_id, "reason": str(note.detail.get("reason", ""))}
        for note in of("fallback")
    ]
    gamma = {note.client_id: _short(note.detail.get("gamma")) for note in of("switched")}
    measured = [
        {
            "client": note.client_id,
            "version": note.detail.get("version", note.base_version),
            "e1": _short(note.detail.get("estimate_error")),
            "e2": _short(note.detail.get("stale_error")),
        }
        for note in of("measured")
    ]
    told: dict[str, Any] = {
        "converted": converted,
        "fallbacks": fallbacks,
        "gamma": gamma,
        "measured": measured,
    }
    return {kind: found for kind, found in told.items() if found}


def _short(value: float | None) -> float | None:
    """Return a number with the digits that mean something; None for what is no JSON."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")


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
    model: nn.Module | None = None,
    inputs: InputSpec | None = None,
    kept: Iterable[int] = (),
    executor: Executor | None = None,
    prepared: Mapping[tuple[str, int], Prepared] | None = None,
) -> StepResult:
    """Take one round's arrivals and return the next state with a report.

    A round without updates, or with updates of no weight, leaves the weights as they
    are and still makes a new version. So does one whose result would not be finite.
    """
    began = time.perf_counter()
    # 1. One order for all, so that who came first cannot change a bit of the result.
    ordered = sorted(arrivals, key=lambda u: (u.client_id, u.base_version))
    view = ServerView(
        state.version,
        state.params,
        history,
        local,
        rng,
        model,
        inputs,
        frozenset(kept),
        executor,
        prepared or {},
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
    came = {(u.client_id, u.base_version): u for u in arrivals}
    kept: list[Update] = []
    notes: list[Note] = []
    for update in updates:
        original = came.get((update.client_id, update.base_version))
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
