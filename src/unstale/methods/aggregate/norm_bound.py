r"""A bound on the norm of updates: a multiple of the round's median norm.

Every update that is longer than c = `factor` times m, the median of the norms of the round, is
shortened to that length:

$$ \hat\Delta_i = \min(1, \frac{c\,m}{\lVert\Delta_i\rVert})\, \Delta_i. $$

The bounded updates go on to another aggregator. Nobody is left out and no direction is changed,
so what only a few clients know is kept; but a malicious update of ordinary length is, too.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from unstale.errors import ConfigError
from unstale.methods.aggregate.robust import counted
from unstale.methods.aggregator_registry import as_aggregator
from unstale.methods.base import Aggregator
from unstale.params import norm, scale
from unstale.updates import Aggregated, Note, ServerView, State, Update


@dataclass(frozen=True, slots=True)
class NormBound:
    """Shortens updates to a multiple of the round's median norm; then another aggregator.

    All updates count alike in the median. A single update is its own median and stays as it
    is; for a bound that does not depend on the round there is `Limits.max_norm`.

    Example:
        >>> NormBound(factor=2.0, then="median").inner
        Median()

    References:
        Sun et al., "Can You Really Backdoor Federated Learning?", 2019, who bound by a given
        norm.
    """

    factor: float = 1.0
    """c, the largest norm as a multiple of the median norm of the round."""
    then: Any = "fedavg"
    """The aggregator of the bounded updates: a name, a table with `name` and settings, or an
    aggregator."""

    def __post_init__(self) -> None:
        if not (self.factor > 0 and math.isfinite(self.factor)):
            raise ConfigError(
                f"norm_bound: `factor` should be a number above 0. Found {self.factor!r}."
            )
        _ = self.inner  # checks it

    @property
    def inner(self) -> Aggregator:
        """The aggregator of the bounded updates."""
        return as_aggregator(self.then)

    def init(self) -> State:
        """Return the state of the aggregator that follows."""
        return self.inner.init()

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Aggregated:
        """Shorten the updates and aggregate them."""
        found = counted(updates)
        norms = [norm(update.delta) for update in found]
        limit = self.factor * median(norms) if norms else 0.0
        bounded: list[Update] = []
        notes: list[Note] = []
        for update, size in zip(found, norms, strict=True):
            if size <= limit:
                bounded.append(update)
                continue
            by = limit / size
            bounded.append(dataclasses.replace(update, delta=scale(update.delta, by)))
            notes.append(Note("bounded", update.client_id, update.base_version, {"factor": by}))
        result = self.inner.apply(bounded, state, view)
        return dataclasses.replace(result, notes=(*notes, *result.notes))
