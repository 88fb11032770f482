"""Scenarios: data, latency, availability and selection of the simulated clients.

`ScenarioSpec` has the settings; `Scenario` applies them to one data set and one seed.
All methods of an experiment run in the same scenario.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from unstale.data import Dataset
from unstale.sim.attackers import Attack, AttackPlan, NoAttackers
from unstale.sim.availability import AlwaysAvailable, Availability
from unstale.sim.cohort import Cohort, WholeCohort
from unstale.sim.drift import Drift, LookDrift, LookPlan, LookTestSet, NoDrift
from unstale.sim.latency import IntertwinedLatency, Latency
from unstale.sim.partition import DirichletLabels, Partition, histogram


@dataclass(frozen=True, slots=True)
class ScenarioSpec:
    """The settings of a scenario."""

    partition: Partition = field(default_factory=DirichletLabels)
    """Which samples each client holds."""
    latency: Latency = field(default_factory=IntertwinedLatency)
    """How many rounds late the updates of each client arrive."""
    cohort: Cohort = field(default_factory=WholeCohort)
    """Which clients a round draws."""
    availability: Availability = field(default_factory=AlwaysAvailable)
    """When clients are available."""
    drift: Drift = field(default_factory=NoDrift)
    """How client data changes from round to round."""
    attackers: Attack = field(default_factory=NoAttackers)
    """Which clients send something else than what they have trained, and what."""
    overlap: bool = False
    """Whether a slow client can be asked again while it works. True lets it send an update
    whenever it is drawn, as in the paper's experiments; False is how a real device behaves."""


class Drawn(NamedTuple):
    """The cohort of a round."""

    asked: list[int]
    """The clients that the server asks to train."""
    absent: list[int]
    """The clients that it cannot ask, because they are at work or away."""


class Scenario:
    """Partition, latencies, availability and drift for one data set and one seed."""

    def __init__(self, spec: ScenarioSpec, data: Dataset, seed: int) -> None:
        # Clients begin with the first look; samples of a second one, if any, come after it.
        first = data.looks[0].train if data.looks else len(data.y_train)
        labels, second = np.split(data.y_train.numpy(), [first])
        users = None if data.users_train is None else data.users_train.numpy()
        self.spec = spec
        self.data = data
        self.seed = seed
        parts = spec.partition.split(labels, users, seed)
        self.histogram = histogram(labels, parts, data.num_classes)
        self.latency = spec.latency.plan(self.histogram, seed)
        self.availability = spec.availability.plan(len(parts), seed)
        slow = set(self.latency.slow)
        self.slow = sorted(slow)
        new_labels = second if data.looks else None
        self._drift = spec.drift.plan(parts, labels, seed, slow=self.slow, new_labels=new_labels)
        self._test_set = _test_set(spec.drift, data)
        self.fast = [client for client in range(len(parts)) if client not in slow]
        attackers = spec.attackers.draw(len(parts), self.fast, seed)
        self.attack = AttackPlan(spec.attackers, attackers, seed)

    @property
    def num_clients(self) -> int:
        """Number of clients."""
        return len(self.histogram)

    @property
    def affected(self) -> tuple[int, ...]:
        """The affected classes, whose data is on slow clients."""
        return self.spec.latency.affected

    def name(self, client: int) -> str:
        """Return the id of a client for the server; ids sort in the order of client indices."""
        return f"client-{client:0{len(str(self.num_clients - 1))}d}"

    def examples(self, client: int, round: int) -> torch.Tensor:
        """Return the indices of the training samples that a client holds in a round."""
        return torch.from_numpy(np.asarray(self._drift.indices(client, round), dtype=np.int64))

    def test_examples(self, round: int) -> torch.Tensor | None:
        """Return the indices of the test samples of a round; None for the whole test part."""
        if self._test_set is None:
            return None
        shares = np.zeros(self.data.num_classes)
        if isinstance(self._drift, LookPlan):
            shares = self._drift.shares(round, self.data.num_classes)
        return torch.from_numpy(self._test_set.indices(shares))

    def drawn(self, round: int, busy: set[int]) -> Drawn:
        """Draw the cohort of a round from all clients, as if nobody were busy or away.

        Args:
            round: The round, from 0.
            busy: The clients that are at work.
        """
        asked: list[int] = []
        absent: list[int] = []
        for client in self.spec.cohort.draw(round, self.fast, self.slow, self.seed):
            idle = self.spec.overlap or client not in busy
            can = idle and self.availability.available(client, round)
            (asked if can else absent).append(client)
        return Drawn(asked, absent)

    def describe(self) -> dict[str, Any]:
        """Return latency and class counts of every client, for the report."""
        slow = set(self.slow)
        tested = self.test_examples(0)
        y_test = self.data.y_test if tested is None else self.data.y_test[tested]
        return {
            "seed": self.seed,
            "classes": list(self.data.classes),
            "affected": list(self.affected),
            "clients": [
                {
                    "id": self.name(client),
                    "examples": int(row.sum()),
                    "histogram": [int(n) for n in row],
                    "latency": float(self.latency.typical(client)),
                    "slow": client in slow,
                    **({"attacker": True} if client in self.attack.attackers else {}),
                }
                for client, row in enumerate(self.histogram)
            ],
            "test_counts": torch.bincount(y_test, minlength=self.data.num_classes).tolist(),
            **({} if self._test_set is None else {"test_set": self._say_test_set()}),
        }

    def _say_test_set(self) -> str:
        """Return what accuracy is measured on, for the report."""
        old, new = (look.name for look in self.data.looks)
        which = "old" if self._test_set is None else self._test_set.which
        if which == "clients":
            return f"{old} and {new}, of each class as clients hold them in that round"
        return f"{old}, the old look" if which == "old" else f"{new}, the new look"


def _test_set(drift: Drift, data: Dataset) -> LookTestSet | None:
    """Return which test samples of data with two looks are used; None if it has one."""
    if not data.looks:
        return None
    which = drift.test if isinstance(drift, LookDrift) else "old"
    return LookTestSet(which, data.y_test.numpy(), data.looks[0].test)
