r"""The coordinate-wise trimmed mean of a round's updates.

Of the n proposals for a weight of the model the k largest and the k smallest are left out, and
the others averaged:

$$ \Delta_j = \frac{1}{n - 2k} \sum_{i=k+1}^{n-k} \Delta_{(i)j}, \qquad
   \Delta_{(1)j} \le \dots \le \Delta_{(n)j}, $$

where k is the smaller of ⌈βn⌉ and ⌊(n − 1)/2⌋, and β is `share`. The publication takes βn to
be whole. Rounding up means that a round of three updates already loses its extremes; the second
bound leaves at least one or two.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from unstale.methods.aggregate.robust import Memoryless, check_share, counted, of_share, stacked
from unstale.updates import Aggregated, ServerView, State, Update


@dataclass(frozen=True, slots=True)
class TrimmedMean(Memoryless):
    """The coordinate-wise mean without the extremes; all updates count alike.

    Of one or two updates nothing is trimmed.

    Example:
        >>> [TrimmedMean(share=0.2).trimmed(n) for n in (2, 3, 10, 30)]
        [0, 1, 2, 6]

    References:
        Yin et al., "Byzantine-Robust Distributed Learning: Towards Optimal Statistical
        Rates", 2018.
    """

    share: float = 0.2
    """β, the share of the updates that is left out at each end, rounded up."""

    def __post_init__(self) -> None:
        check_share("trimmed_mean", self.share)

    def trimmed(self, n: int) -> int:
        """Return how many of n proposals are left out at each end."""
        return min(of_share(self.share, n), (n - 1) // 2)

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Aggregated:
        """Return the trimmed mean of every coordinate."""
        if not (found := counted(updates)):
            return Aggregated(None, state)
        k, n = self.trimmed(len(found)), len(found)
        delta = {
            name: rows.sort(dim=0).values[k : n - k].mean(dim=0)
            for name, rows in stacked(found).items()
        }
        return Aggregated(delta, state)
