"""The drift `shift`: samples are replaced by samples of the next class."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unstale.seeding import numpy_generator
from unstale.sim.drift.pace import check_pace, refills_until
from unstale.sim.partition import Indices


@dataclass(frozen=True, slots=True)
class ShiftDrift:
    """In every round some samples of each client are replaced by samples of the next class.

    The classes are in a circle: after the last comes the first. A client's samples are
    replaced one after the other in a random order, then from the first one again, so what
    was learned about a client's data becomes wrong, not only old. All clients shift at the
    same pace, so every class is held as often as before, by other clients.
    """

    per_round: float = 1
    """Number of samples of each client that are replaced in a round; at most all of them. A
    fraction adds up: 0.25 is one sample in every fourth round."""
    start: int = 0
    """The last round with the initial data; it changes in every round after that."""
    stop: int | None = None
    """The last round in which data changes; the last of the run if not given."""

    def __post_init__(self) -> None:
        check_pace(self)

    def plan(
        self,
        parts: Sequence[Indices],
        labels: Indices,
        seed: int,
        *,
        slow: Sequence[int] = (),
        new_labels: Indices | None = None,
    ) -> "ShiftPlan":
        """Return the plan; new samples are drawn from all samples of a class.

        Example:
            >>> labels = np.arange(12) % 3
            >>> plan = ShiftDrift(per_round=2).plan([np.array([0, 3])], labels, seed=0)
            >>> [labels[plan.indices(0, round)].tolist() for round in range(4)]
            [[0, 0], [1, 1], [2, 2], [0, 0]]
        """
        return ShiftPlan(self, tuple(parts), labels, seed)


@dataclass(frozen=True, slots=True, eq=False)
class ShiftPlan:
    """The plan of `ShiftDrift`; any round is computed directly, without those before."""

    settings: ShiftDrift
    """The settings of the drift."""
    parts: tuple[Indices, ...]
    """The initial sample indices of every client."""
    labels: Indices
    """The class of every sample."""
    seed: int
    """Seed of the draws."""

    def indices(self, client: int, round: int) -> Indices:
        """Return the samples of a client in a round."""
        held = self.parts[client].copy()
        refills = refills_until(self.settings, round, len(held))
        if not refills:
            return held
        names = ("drift", "shift", int(client))
        order = numpy_generator(self.seed, *names).permutation(len(held))
        # The first `ahead` slots of `order` were replaced once more than the others.
        laps, ahead = divmod(refills, len(held))
        lap = np.empty(len(held), dtype=np.int64)
        lap[order] = np.where(np.arange(len(held)) < ahead, laps + 1, laps)
        classes = np.unique(self.labels)
        now = (np.searchsorted(classes, self.labels[held]) + lap) % len(classes)
        for place in np.unique(now[lap > 0]):
            slots = np.flatnonzero((now == place) & (lap > 0))
            pool = np.flatnonzero(self.labels == classes[place])
            rng = numpy_generator(self.seed, *names, int(classes[place]))
            # A slot keeps its sample until it is replaced again, whatever happens to others.
            held[slots] = rng.permutation(pool)[slots % len(pool)]
        return held
