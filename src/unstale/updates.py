"""Records that clients, server, compensators and aggregators exchange.

All are frozen dataclasses.
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

# Identifies an update: client id and base version.
Key = tuple[str, int]
# The state of a compensator or aggregator: nested dicts (with string keys) and lists whose
# leaves are tensors or JSON values, so that a checkpoint can store it.
State = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """A model update from a client, as sent or as a compensator has changed it.

    Example:
        >>> update = Update("c07", base_version=3, delta={"w": torch.ones(2)}, num_examples=40)
        >>> update.staleness(version=10)
        7
    """

    client_id: str
    """The client that sent it."""
    base_version: int
    """The version of the global model that the client's training started from."""
    delta: Params
    """Δ: the client's trained weights minus the weights of `base_version`."""
    num_examples: int
    """The number of examples that the client trained on."""
    weight: float = 1.0
    """Factor on `num_examples` in the aggregation, which weighting compensators change. Clients
    send at most 1; a method may go above."""
    stand_in: bool = False
    """Whether the server made it in place of an absent client; no client has sent it."""

    @property
    def key(self) -> Key:
        """Client id and base version; the server accepts one update per key."""
        return self.client_id, self.base_version

    def staleness(self, version: int) -> int:
        """Return the staleness τ = `version` − `base_version`."""
        return version - self.base_version


@dataclass(frozen=True, slots=True)
class Receipt:
    """The server's answer to a submitted update."""

    accepted: bool
    reason: str = ""
    """Why the update was refused; empty if it was accepted."""
    code: str = ""
    """Short name of the reason, under which the report counts it; empty if accepted."""


@dataclass(frozen=True, slots=True, eq=False)
class PrefitResult:
    """The result of fitting a surrogate before the round that needs it."""

    request: Request
    """What was fitted: the update, its base weights and the start."""
    fit: Fit
    """The surrogate, or the reason why the fit failed."""
    since: int
    """The global version when the update arrived and began to await its fit."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingTools:
    """What methods need to train the model on the server, as `convert` does."""

    model: nn.Module | None = None
    """The architecture; the weights of this module are not used."""
    inputs: InputSpec | None = None
    """Shape, bounds and number of classes of the model's inputs."""
    executor: Executor | None = None
    """Computes conversions in parallel; None for this process."""
    prefits: Mapping[Key, PrefitResult] = field(default_factory=dict)
    """Surrogates that were fitted in the background, by the key of their update."""


@dataclass(frozen=True, slots=True, eq=False)
class ServerView:
    """The part of the server that compensators and aggregators may read."""

    version: int
    """The current global version t."""
    params: Params
    """The current global weights."""
    history: Callable[[int], Params | None]
    """Returns the weights of an earlier version, or None if they are no longer kept."""
    local: LocalSpec
    """The training recipe that clients run."""
    rng: torch.Generator
    """The only source of randomness, seeded by the server's seed and the version."""
    kept_versions: frozenset[int] = frozenset()
    """The versions that `history` still has; state about others can be dropped."""
    tools: TrainingTools = field(default_factory=TrainingTools)
    """For methods that train the model on the server."""
    absent: tuple[str, ...] = ()
    """Clients to stand in for, sorted: this round drew them but they are at work or away, or they
    are asked in it and owed a turn from before. Of none of them has an update arrived in this
    round. A compensator may add an update for each (`Update.stand_in`)."""
    clients: Mapping[str, float] = field(default_factory=dict)
    """All registered clients, and how many versions late the updates of each are. Empty if the
    engine has registered none (`Server.register`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The result of a compensator: compensated updates, its new state, and notes."""

    updates: tuple[Update, ...]
    state: State
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Aggregated:
    """The result of an aggregator: the change of the global weights (None for no change)."""

    delta: Params | None
    state: State
    notes: tuple[Note, ...] = ()
