"""Client data that changes from round to round."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from unstale.errors import ConfigError
from unstale.seeding import numpy_generator
from unstale.sim.partition import Indices


class DriftPlan(Protocol):
    """The data of all clients in all rounds, decided."""

    def indices(self, client: int, round: int) -> Indices:
        """Return the samples that a client holds in a round, counted from 0.

        The answer does not depend on what was asked before: a late client trains on the
        data of the round in which it began. A client always holds the same number of
        samples, and that is all that callers may rely on. What the samples are is free:
        a drift may keep the class mix (`ResampleDrift`), change it by moving to samples
        of other classes, or change the look of the data by moving to other samples of a
        data set that holds several looks of the same classes, one behind the other.
        """
        ...


class Drift(Protocol):
    """A way in which client data changes."""

    def plan(self, parts: Sequence[Indices], labels: Indices, seed: int) -> DriftPlan:
        """Decide what every client holds in every round.

        Args:
            parts: The sample indices of every client at first.
            labels: The class of every sample of the whole data set.
            seed: Another seed gives another course.
        """
        ...


@dataclass(frozen=True, slots=True)
class NoDrift:
    """Clients keep their data."""

    def plan(self, parts: Sequence[Indices], labels: Indices, seed: int) -> "StillPlan":
        """Return a plan that always gives the parts themselves."""
        return StillPlan(tuple(parts))


@dataclass(frozen=True, slots=True)
class StillPlan:
    """Every client holds the same samples in every round."""

    parts: tuple[Indices, ...]
    """The sample indices of every client."""

    def indices(self, client: int, round: int) -> Indices:
        """Return the client's part."""
        return self.parts[client]


@dataclass(frozen=True, slots=True)
class ResampleDrift:
    """Every round some samples of a client give way to others of the same class.

    Every client's oldest samples leave first, in an order drawn at the start, and no
    sample is twice on one client. New ones come from the samples that no client held at
    first; when those of a class have all been used, the samples that the client gave up
    come round again. Where the partition left no sample of a class, they come from
    other clients' samples. Two clients may come to hold the same sample.
    """

    per_round: int = 10
    """How many samples of every client are replaced each round; at most all of them."""
    start: int = 0
    """The last round that sees the partition as it was; data changes from then on."""
    stop: int | None = None
    """The last round with a change; data changes until the end when not set."""

    def __post_init__(self) -> None:
        for name, value in (("per_round", self.per_round), ("start", self.start)):
            if value < 0:
                raise ConfigError(
                    f"Setting '{name}' should be at least 0. Found {value}. Raise it."
                )
        if self.stop is not None and self.stop < self.start:
            raise ConfigError(
                f"Setting 'stop' should not be before start ({self.start}). Found {self.stop}. "
                "Raise it, or leave it out to change until the end."
            )

    def plan(self, parts: Sequence[Indices], labels: Indices, seed: int) -> "ResamplePlan":
        """Find the unassigned samples of every class.

        Example:
            >>> labels = np.arange(100) % 2
            >>> plan = ResampleDrift(per_round=1).plan([np.arange(4)], labels, seed=0)
            >>> plan.indices(0, round=0).tolist()
            [0, 1, 2, 3]
            >>> later = plan.indices(0, round=50)
            >>> labels[later].tolist(), bool((later > 3).all())
            ([0, 1, 0, 1], True)
        """
        unassigned = np.ones(len(labels), dtype=bool)
        for part in parts:
            unassigned[part] = False
        # A class without an unassigned sample is drawn from all its samples.
        for klass in np.setdiff1d(labels, labels[unassigned]):
            unassigned[labels == klass] = True
        return ResamplePlan(self, tuple(parts), labels, np.flatnonzero(unassigned), seed)


class _Course(NamedTuple):
    """What one client goes through, in tables from which any round can be computed.

    The client's slots are refilled in `order`, round and round. A slot of class k that is
    the q-th of the n_k slots of its class in that order gets, when it is refilled for the
    c-th time, sample number c·n_k + q of the class's walk. A walk is the class's pool,
    shuffled, then the client's own first samples in the order in which they left; then it
    begins again. So any n_k samples in a row differ, and none is still in another slot.
    """

    order: Indices  # the slots, first to be refilled first
    rank: Indices  # q, by place in the order
    size: Indices  # n_k, likewise
    walks: Indices  # all walks, one behind the other
    begin: Indices  # where the walk of the slot's class begins, by place in the order
    length: Indices  # how long it is, likewise


@dataclass(frozen=True, slots=True, eq=False)
class ResamplePlan:
    """The course of every client, computed for any round on its own."""

    settings: ResampleDrift
    """How much changes, and when."""
    parts: tuple[Indices, ...]
    """The sample indices of every client at first."""
    labels: Indices
    """The class of every sample."""
    pool: Indices
    """The samples from which new ones are drawn."""
    seed: int
    """The seed of all courses."""
    _courses: dict[int, _Course] = field(default_factory=dict, repr=False)

    def indices(self, client: int, round: int) -> Indices:
        """Return the client's samples; slot by slot their classes never change."""
        settings, held = self.settings, self.parts[client].copy()
        last = round if settings.stop is None else min(round, settings.stop)
        refills = max(0, last - settings.start) * min(settings.per_round, len(held))
        if not refills:
            return held
        course = self._course(int(client))
        # The first `ahead` slots of the order were refilled once more than the others.
        laps, ahead = divmod(refills, len(held))
        lap = np.where(np.arange(len(held)) < ahead, laps, laps - 1)
        number = (lap * course.size + course.rank) % course.length
        fresh = course.walks[course.begin + number]
        held[course.order] = np.where(lap >= 0, fresh, held[course.order])
        return held

    def _course(self, client: int) -> _Course:
        if client not in self._courses:
            part = self.parts[client]
            rng = numpy_generator(self.seed, "drift", "resample", client)
            order = rng.permutation(len(part))
            leaving = part[order]
            pool = np.setdiff1d(self.pool, part)
            classes = self.labels[leaving]
            rank, size, begin, length = (np.zeros(len(part), dtype=np.int64) for _ in range(4))
            walks: list[Indices] = []
            for klass in np.unique(classes):
                mine = classes == klass
                fresh = rng.permutation(pool[self.labels[pool] == klass])
                walk = np.concatenate([fresh, leaving[mine]])
                rank[mine] = np.arange(mine.sum())
                size[mine] = mine.sum()
                begin[mine] = sum(map(len, walks))
                length[mine] = len(walk)
                walks.append(walk)
            self._courses[client] = _Course(order, rank, size, np.concatenate(walks), begin, length)
        return self._courses[client]


KINDS: dict[str, type[Drift]] = {"none": NoDrift, "resample": ResampleDrift}
"""The drifts by the name that an experiment file gives as `kind`."""
