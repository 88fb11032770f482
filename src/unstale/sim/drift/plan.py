"""The protocols of drifts, and the drift in which nothing changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from unstale.sim.partition import Indices


class DriftPlan(Protocol):
    """The samples of every client in every round, for one data set and seed."""

    def indices(self, client: int, round: int) -> Indices:
        """Return the indices of the samples that a client holds in a round (from 0).

        The result does not depend on earlier calls: a slow client trains on the data of the
        round in which it started. A client holds the same number of samples in every round.
        A drift may keep the classes of the samples (`ResampleDrift`, `LookDrift`) or change them.
        """
        ...


class Drift(Protocol):
    """Changes client data over time."""

    def plan(
        self,
        parts: Sequence[Indices],
        labels: Indices,
        seed: int,
        *,
        slow: Sequence[int] = (),
        new_labels: Indices | None = None,
    ) -> DriftPlan:
        """Return which samples every client holds in every round.

        Args:
            parts: The initial sample indices of every client.
            labels: The class of every sample of the data set; of its first look if it has two.
            seed: Seed of the draws.
            slow: The slow clients.
            new_labels: The class of every sample of the second look, whose indices follow those
                of the first; None if the data has only one.
        """
        ...


@dataclass(frozen=True, slots=True)
class NoDrift:
    """Clients keep their initial data."""

    def plan(
        self,
        parts: Sequence[Indices],
        labels: Indices,
        seed: int,
        *,
        slow: Sequence[int] = (),
        new_labels: Indices | None = None,
    ) -> "StillPlan":
        """Return a plan with the same samples in every round."""
        return StillPlan(tuple(parts))


@dataclass(frozen=True, slots=True)
class StillPlan:
    """A plan in which every client holds the same samples in every round."""

    parts: tuple[Indices, ...]
    """The sample indices of every client."""

    def indices(self, client: int, round: int) -> Indices:
        """Return the samples of the client."""
        return self.parts[client]
