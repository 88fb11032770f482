"""The drift `look`: samples are replaced by samples of the same class in another look."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unstale.errors import ConfigError
from unstale.seeding import numpy_generator
from unstale.sim.drift.pace import check_pace, refills_until
from unstale.sim.partition import Indices

CLIENTS = ("all", "slow", "fast")
TEST_SETS = ("clients", "old", "new")


@dataclass(frozen=True, slots=True)
class LookDrift:
    """In every round some samples of each client are replaced by ones of another look.

    They come from a second data set that shows the same classes: this is the paper's scenario
    with variant data, in which MNIST becomes SVHN. A client's samples are replaced in a random
    order, and each keeps its class. No two clients get the same new
    sample unless a class has fewer new samples than clients hold of it. The new data set should
    have the shape and the classes of the old one; both are read from the data root.

    The paper has all clients drift, at 0.5, 1 or 2 samples a round, and repeats the change at 2;
    it does not say how, so `repeat` is our reading. It does not say on what accuracy is
    measured either; `test` chooses.
    """

    to: str = "blended_mnist"
    """Name of the data set with the new look; `grey_svhn` where there are files of SVHN."""
    per_round: float = 1
    """Number of samples of each client that are replaced in a round; at most all of them. A
    fraction adds up: 0.25 is one sample in every fourth round."""
    clients: str = "all"
    """Whose data changes: that of `all` clients, of `slow` or of `fast` ones."""
    classes: tuple[int, ...] = ()
    """The classes whose samples are replaced; all if empty."""
    repeat: bool = False
    """Whether samples are replaced back, one by one, once all of a client have the new look, and
    so on, to and fro. If not, data stays as it is then."""
    start: int = 0
    """The last round with the initial data; it changes in every round after that."""
    stop: int | None = None
    """The last round in which data changes; the last of the run if not given."""
    test: str = "clients"
    """The test set. `clients`: the test part of the old look, in which as large a share of each
    class is replaced by test samples of the new look as in the data of all clients together in
    that round. `old` and `new`: the test part of that look, in every round."""

    def __post_init__(self) -> None:
        check_pace(self)
        for name, value, known in (
            ("clients", self.clients, CLIENTS),
            ("test", self.test, TEST_SETS),
        ):
            if value not in known:
                raise ConfigError(
                    f"Setting '{name}' should be one of: {', '.join(known)}. Found '{value}'."
                )

    def plan(
        self,
        parts: Sequence[Indices],
        labels: Indices,
        seed: int,
        *,
        slow: Sequence[int] = (),
        new_labels: Indices | None = None,
    ) -> "LookPlan":
        """Return the plan; the index of a new sample is its place after all old ones.

        Raises:
            ConfigError: If there is no new look, or it lacks a class that clients hold.

        Example:
            >>> labels = np.arange(10) % 2
            >>> drift = LookDrift(per_round=0.5)
            >>> plan = drift.plan([np.arange(4)], labels, seed=0, new_labels=labels)
            >>> [int((plan.indices(0, round) >= 10).sum()) for round in range(6)]
            [0, 0, 1, 1, 2, 2]
        """
        if new_labels is None or len(new_labels) == 0:
            raise ConfigError(
                "A drift of kind 'look' should have data with two looks. Found one. Load the data "
                "with `unstale.experiment.load_data`, or join two sets with `data.join_looks`."
            )
        late = set(slow)
        orders = []
        for client, part in enumerate(parts):
            drifts = self.clients == "all" or (client in late) == (self.clients == "slow")
            which = (
                np.isin(labels[part], self.classes) if self.classes else np.ones(len(part), bool)
            )
            rng = numpy_generator(seed, "drift", "look", client)
            orders.append(rng.permutation(np.flatnonzero(which & drifts)))
        fresh = _new_samples(parts, orders, labels, new_labels, seed)
        return LookPlan(self, tuple(parts), tuple(orders), fresh, labels)


@dataclass(frozen=True, slots=True, eq=False)
class LookPlan:
    """The plan of `LookDrift`; any round is computed directly, without those before."""

    settings: LookDrift
    """The settings of the drift."""
    parts: tuple[Indices, ...]
    """The initial sample indices of every client."""
    orders: tuple[Indices, ...]
    """The places in each client's data that change, in the order in which they do."""
    fresh: tuple[Indices, ...]
    """The index of the new sample of each place in `orders`."""
    labels: Indices
    """The class of every old sample."""

    def indices(self, client: int, round: int) -> Indices:
        """Return the samples of a client in a round; the class at each place never changes."""
        held = self.parts[client].copy()
        now = self._renewed(client, round)
        held[self.orders[client][now]] = self.fresh[client][now]
        return held

    def shares(self, round: int, num_classes: int) -> NDArray[np.float64]:
        """Return the share of new samples by class in the data of all clients together.

        For a class that no client holds it is the share over all classes.
        """
        held, new = np.zeros(num_classes), np.zeros(num_classes)
        for client, part in enumerate(self.parts):
            places = self.orders[client][self._renewed(client, round)]
            held += np.bincount(self.labels[part], minlength=num_classes)
            new += np.bincount(self.labels[part[places]], minlength=num_classes)
        overall = new.sum() / max(1.0, held.sum())
        return np.where(held > 0, new / np.maximum(held, 1), overall)

    def _renewed(self, client: int, round: int) -> NDArray[np.bool_]:
        """Tell for each place in `orders` of a client whether it has the new look in a round."""
        count = len(self.orders[client])
        replaced = refills_until(self.settings, round, count)
        if not self.settings.repeat:
            replaced = min(replaced, count)
        # The first `ahead` places were replaced once more than the others.
        laps, ahead = divmod(replaced, max(1, count))
        more = np.arange(count) < ahead
        return ~more if laps % 2 else more


def _new_samples(
    parts: Sequence[Indices],
    orders: Sequence[Indices],
    labels: Indices,
    new_labels: Indices,
    seed: int,
) -> tuple[Indices, ...]:
    """Return the new sample of every place that changes, each class dealt out to all clients."""
    places = np.concatenate([part[order] for part, order in zip(parts, orders, strict=True)])
    classes = labels[places]
    drawn = np.empty(len(places), dtype=np.int64)
    for klass in np.unique(classes):
        pool = np.flatnonzero(new_labels == klass)
        if len(pool) == 0:
            raise ConfigError(
                f"The new look should have samples of every class that changes. Found none of "
                f"class {klass}. Choose another data set, or leave the class out of `classes`."
            )
        mine = np.flatnonzero(classes == klass)
        shuffled = numpy_generator(seed, "drift", "look", "new", int(klass)).permutation(pool)
        drawn[mine] = shuffled[np.arange(len(mine)) % len(pool)]
    ends = np.cumsum([len(order) for order in orders])[:-1]
    return tuple(np.split(len(labels) + drawn, ends))
