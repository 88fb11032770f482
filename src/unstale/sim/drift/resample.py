"""The drift `resample`: samples are replaced by others of the same class."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from unstale.seeding import numpy_generator
from unstale.sim.drift.pace import check_pace, refills_until
from unstale.sim.partition import Indices


@dataclass(frozen=True, slots=True)
class ResampleDrift:
    """In every round some samples of each client are replaced by others of the same class.

    A client's oldest samples are replaced first; its initial ones in a random order. New
    samples are drawn from those that no client held initially or, if the partition left
    none of a class, from all samples of the class. Once a client has used all of these, its
    replaced samples return. A client never holds a sample twice, but two clients may hold
    the same sample.
    """

    per_round: float = 10
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
    ) -> "ResamplePlan":
        """Return the plan; new samples come from the unassigned ones of each class.

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
        # A class without unassigned samples is drawn from all of its samples.
        for klass in np.setdiff1d(labels, labels[unassigned]):
            unassigned[labels == klass] = True
        return ResamplePlan(self, tuple(parts), labels, np.flatnonzero(unassigned), seed)


class _Replacements(NamedTuple):
    """The replacements of one client, as tables from which any round can be computed.

    A slot is the position of a sample in the client's data. Slots are refilled cyclically in
    `order`. Each class k has a queue: its new samples in random order, then the client's
    initial samples in the order in which they are replaced; after its end it starts again.
    With n_k slots of class k, the q-th of them in `order` gets sample number c·n_k + q of
    the queue when it is refilled for the c-th time (both from 0). Any n_k consecutive samples
    of a queue differ, so no sample is in two slots.
    """

    order: Indices  # the slots in the order of refilling
    rank: Indices  # q, for each slot of `order`
    size: Indices  # n_k, for each slot of `order`
    queues: Indices  # the queues of all classes, concatenated
    begin: Indices  # where the queue of the slot's class begins, for each slot of `order`
    length: Indices  # the length of that queue, for each slot of `order`


@dataclass(frozen=True, slots=True, eq=False)
class ResamplePlan:
    """The plan of `ResampleDrift`; any round is computed directly, without those before."""

    settings: ResampleDrift
    """The settings of the drift."""
    parts: tuple[Indices, ...]
    """The initial sample indices of every client."""
    labels: Indices
    """The class of every sample."""
    pool: Indices
    """The samples from which new ones are drawn."""
    seed: int
    """Seed of the draws."""
    _tables: dict[int, _Replacements] = field(default_factory=dict, repr=False)

    def indices(self, client: int, round: int) -> Indices:
        """Return the samples of a client in a round; the class at each position never changes."""
        held = self.parts[client].copy()
        refills = refills_until(self.settings, round, len(held))
        if not refills:
            return held
        table = self._table(int(client))
        # The first `ahead` slots of `order` were refilled once more than the others.
        laps, ahead = divmod(refills, len(held))
        lap = np.where(np.arange(len(held)) < ahead, laps, laps - 1)
        number = (lap * table.size + table.rank) % table.length
        new = table.queues[table.begin + number]
        held[table.order] = np.where(lap >= 0, new, held[table.order])
        return held

    def _table(self, client: int) -> _Replacements:
        if client not in self._tables:
            part = self.parts[client]
            rng = numpy_generator(self.seed, "drift", "resample", client)
            order = rng.permutation(len(part))
            leaving = part[order]
            pool = np.setdiff1d(self.pool, part)
            classes = self.labels[leaving]
            rank, size, begin, length = (np.zeros(len(part), dtype=np.int64) for _ in range(4))
            queues: list[Indices] = []
            for klass in np.unique(classes):
                mine = classes == klass
                new = rng.permutation(pool[self.labels[pool] == klass])
                queue = np.concatenate([new, leaving[mine]])
                rank[mine] = np.arange(mine.sum())
                size[mine] = mine.sum()
                begin[mine] = sum(map(len, queues))
                length[mine] = len(queue)
                queues.append(queue)
            self._tables[client] = _Replacements(
                order, rank, size, np.concatenate(queues), begin, length
            )
        return self._tables[client]
