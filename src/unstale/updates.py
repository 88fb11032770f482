"""What travels between clients, server, compensators and aggregators.

All are records: frozen, and never changed after they are made.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from unstale.executors import Executor
from unstale.inversion import Fit, InputSpec, Request
from unstale.notes import NOTE_KINDS as NOTE_KINDS
from unstale.notes import Note as Note
from unstale.notes import NoteKind as NoteKind
from unstale.params import Params
from unstale.training.local import LocalSpec

# What tells two updates apart: the client, and the version that it started from.
Key = tuple[str, int]
# The memory of a compensator or aggregator: a tree of string-keyed dicts and lists
# whose leaves are tensors or JSON values. Checkpoints store exactly that.
State = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """What a client sent, or what a compensator made of it.

    Example:
        >>> update = Update("c07", base_version=3, delta={"w": torch.ones(2)}, num_examples=40)
        >>> update.staleness(version=10)
        7
    """

    client_id: str
    """Who sent it."""
    base_version: int
    """The version of the global model that its training started from."""
    delta: Params
    """The client's trained weights minus the weights of `base_version`."""
    num_examples: int
    """How many examples it was trained on."""
    weight: float = 1.0
    """Multiplies `num_examples` in the aggregation; lowered by weighting compensators."""

    @property
    def key(self) -> Key:
        """The client and the base version; the server accepts one update for each."""
        return self.client_id, self.base_version

    def staleness(self, version: int) -> int:
        """Return τ, by how many versions the update is behind `version`."""
        return version - self.base_version


@dataclass(frozen=True, slots=True)
class Receipt:
    """The server's answer to a submitted update."""

    accepted: bool
    reason: str = ""
    """Empty if accepted; else what should hold, what was found, what to do."""
    code: str = ""
    """Empty if accepted; else a short name of the reason, as the report counts it."""


@dataclass(frozen=True, slots=True, eq=False)
class PrefitResult:
    """A surrogate that was fitted before the round that needs it."""

    request: Request
    """The update that it was fitted to, as it came."""
    fit: Fit
    """The surrogate, or why there is none."""
    since: int
    """The version at which the update came; it has been awaiting its fit since."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingTools:
    """What the server lends to methods that train the model themselves."""

    model: nn.Module | None = None
    """The structure of the model; its own weights are not used."""
    inputs: InputSpec | None = None
    """What one input of the model looks like."""
    executor: Executor | None = None
    """Where independent pieces of work are computed; None for this process."""
    prefits: Mapping[Key, PrefitResult] = field(default_factory=dict)
    """Surrogates that were fitted ahead, by the key of their update."""


@dataclass(frozen=True, slots=True, eq=False)
class ServerView:
    """All that a compensator or an aggregator may see of the server."""

    version: int
    """The current version t."""
    params: Params
    """The current global weights."""
    history: Callable[[int], Params | None]
    """The weights of an earlier version, or None if they are gone."""
    local: LocalSpec
    """The recipe that clients were told to run."""
    rng: torch.Generator
    """The only source of randomness; the same for the same seed and version."""
    kept_versions: frozenset[int] = frozenset()
    """The versions that `history` still has: what belongs to others may be forgotten."""
    tools: TrainingTools = field(default_factory=TrainingTools)
    """For methods that train the model themselves."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a compensator returns: better updates, its new memory, and what it did."""

    updates: tuple[Update, ...]
    state: State
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Aggregated:
    """What an aggregator returns: the change to the global weights, or None for none."""

    delta: Params | None
    state: State
    notes: tuple[Note, ...] = ()
