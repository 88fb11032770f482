r"""A bound on the direction of updates: their cosine to the round's own direction.

An update is left out if its cosine to a reference r is below `least`:

$$ \frac{\langle \Delta_i, r \rangle}{\lVert\Delta_i\rVert\, \lVert r\rVert} < c. $$

The reference is made of the round's updates: their coordinate-wise median (`median`), or the
mean of all, each at length 1 (`mean`), so that nobody rules it by size. The others go on to
another aggregator. Where clients hold different classes, honest updates point in different
directions, and those of a rare class may point away from the rest.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unstale.errors import ConfigError
from unstale.methods.aggregate.median import Median
from unstale.methods.aggregate.robust import counted, left_out
from unstale.methods.aggregator_registry import as_aggregator
from unstale.methods.base import Aggregator
from unstale.params import Params, cosine_distance, norm, scale, weighted_mean
from unstale.updates import Aggregated, Note, ServerView, State, Update

REFERENCES = ("median", "mean")


@dataclass(frozen=True, slots=True)
class DirectionBound:
    """Leaves out updates that point away from the round's direction; then another aggregator.

    All updates count alike in the reference. A single update is its own reference and is used.
    If the reference is zero, every cosine counts as 0.

    Example:
        >>> DirectionBound(least=-0.1).reference
        'mean'

    References:
        After Cao et al., "FLTrust: Byzantine-robust Federated Learning via Trust Bootstrapping",
        2021, whose reference is an update that the server trains on data of its own.
    """

    least: float = 0.0
    """c, the smallest cosine to the reference at which an update is used; from -1 to 1."""
    reference: str = "mean"
    """The round's direction: the `mean` of the updates at length 1, or their `median`."""
    then: Any = "fedavg"
    """The aggregator of the updates that are left: a name, a table with `name` and settings, or
    an aggregator."""

    def __post_init__(self) -> None:
        if not -1 <= self.least <= 1:
            raise ConfigError(
                f"direction_bound: `least` should be from -1 to 1. Found {self.least!r}."
            )
        if self.reference not in REFERENCES:
            raise ConfigError(
                f"direction_bound: `reference` should be one of {REFERENCES}. "
                f"Found {self.reference!r}."
            )
        _ = self.inner  # checks it

    @property
    def inner(self) -> Aggregator:
        """The aggregator of the updates that are left."""
        return as_aggregator(self.then)

    def init(self) -> State:
        """Return the state of the aggregator that follows."""
        return self.inner.init()

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Aggregated:
        """Leave out the updates that point away, and aggregate the others."""
        found = counted(updates)
        used: list[Update] = []
        notes: list[Note] = []
        if found:
            towards = self._direction(found, view)
            for update in found:
                cosine = 1.0 - cosine_distance(update.delta, towards)
                # Rounding must not leave out what points exactly there.
                if cosine >= self.least - 1e-12:
                    used.append(update)
                else:
                    reason = f"its cosine to the {self.reference} is {cosine:.3f}"
                    notes.append(left_out(update, "direction_bound", reason))
        result = self.inner.apply(used, state, view)
        return dataclasses.replace(result, notes=(*notes, *result.notes))

    def _direction(self, updates: Sequence[Update], view: ServerView) -> Params:
        if self.reference == "median":
            return Median().apply(updates, {}, view).delta or {}
        sizes = [norm(update.delta) for update in updates]
        units = [
            scale(update.delta, 1 / size if size else 0.0)
            for update, size in zip(updates, sizes, strict=True)
        ]
        return weighted_mean(units, [1.0] * len(units))
