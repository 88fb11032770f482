r"""The coordinate-wise median of a round's updates.

Every weight of the model moves by the median of what the n updates propose for it, for an even
n by the mean of the two in the middle:

$$ \Delta_j = \frac{1}{2} (\Delta_{(l)j} + \Delta_{(h)j}), \qquad
   \Delta_{(1)j} \le \dots \le \Delta_{(n)j}, $$

where l = ⌈n/2⌉ and h = ⌊n/2⌋ + 1. It withstands fewer than half of the updates,
but what only a minority of clients knows is lost with the outliers: where a class is on few
clients, the median of the weights of that class is what all others propose.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from unstale.methods.aggregate.robust import Memoryless, counted, stacked
from unstale.updates import Aggregated, ServerView, State, Update


@dataclass(frozen=True, slots=True)
class Median(Memoryless):
    """The coordinate-wise median; all updates count alike.

    One update is used as it is, of two the mean.

    Example:
        >>> Median()
        Median()

    References:
        Yin et al., "Byzantine-Robust Distributed Learning: Towards Optimal Statistical
        Rates", 2018.
    """

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Aggregated:
        """Return the median of every coordinate."""
        if not (found := counted(updates)):
            return Aggregated(None, state)
        low, high = (len(found) - 1) // 2, len(found) // 2
        delta = {}
        for name, rows in stacked(found).items():
            ordered = rows.sort(dim=0).values
            delta[name] = ordered[low] if low == high else ordered[low].lerp(ordered[high], 0.5)
        return Aggregated(delta, state)
