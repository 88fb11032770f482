r"""Krum and multi-Krum: the updates that are nearest to most others.

With n updates, f of which may be malicious, the score of an update is the sum of its squared
distances to its n − f − 2 nearest neighbours:

$$ s_i = \sum_{j \in N_i} \lVert \Delta_i - \Delta_j \rVert^2, \qquad |N_i| = n - f - 2. $$

Krum uses the update of the lowest score alone; multi-Krum the mean of the m updates of lowest
scores. Their guarantee needs n ≥ 2f + 3. Rounds differ in size, so f is a `share` of the updates
of the round, rounded up, and is lowered to ⌊(n − 3)/2⌋ in a round that is too small for it. With
one or two updates nobody has a neighbour to be judged by: `few` says what happens then.

Both use the updates of a crowd. A client whose data is unlike all others', such as the only one
with a class, is far from everybody and is left out, malicious or not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from unstale.errors import ConfigError
from unstale.methods.aggregate.mean import mean_delta
from unstale.methods.aggregate.robust import (
    Memoryless,
    check_share,
    counted,
    left_out,
    of_share,
    products,
)
from unstale.updates import Aggregated, ServerView, State, Update

FEW = ("use", "skip")
# The least number of updates for which a score exists: n - f - 2 is at least 1.
LEAST = 3


def scores(updates: Sequence[Update], f: int) -> Tensor:
    """Return the score of each of n updates of which f may be malicious; n − f is at least 3."""
    dots = products(updates)
    squares = dots.diagonal()
    distances = (squares[:, None] + squares[None, :] - 2 * dots).clamp(min=0)
    # The nearest is the update itself, at distance 0.
    distances.fill_diagonal_(0)
    return distances.sort(dim=1).values[:, 1 : len(updates) - f - 1].sum(dim=1)


@dataclass(frozen=True, slots=True)
class Krum(Memoryless):
    """The one update that is nearest to most others.

    Example:
        >>> [Krum(share=0.2).attackers(n) for n in (3, 5, 10, 30)]
        [0, 1, 2, 6]

    References:
        Blanchard et al., "Machine Learning with Adversaries: Byzantine Tolerant Gradient
        Descent", 2017.
    """

    share: float = 0.2
    """The share of a round's updates that may be malicious, rounded up: f."""
    few: str = "use"
    """What to do in a round of one or two updates: `use` their mean, or `skip` the round."""

    def __post_init__(self) -> None:
        _check("krum", self.share, self.few)

    def attackers(self, n: int) -> int:
        """Return f for a round of n updates, at least 3: at most ⌊(n − 3)/2⌋."""
        return _attackers(self.share, n)

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Aggregated:
        """Return the delta of the update with the lowest score."""
        return _picked("krum", updates, state, self.share, self.few, 1)


@dataclass(frozen=True, slots=True)
class MultiKrum(Memoryless):
    """The mean, by examples, of the updates that are nearest to most others.

    Example:
        >>> MultiKrum(share=0.2).kept(10)
        8

    References:
        Blanchard et al., "Machine Learning with Adversaries: Byzantine Tolerant Gradient
        Descent", 2017.
    """

    share: float = 0.2
    """The share of a round's updates that may be malicious, rounded up: f."""
    keep: int | None = None
    """m, the number of updates that are averaged; n − f if not given."""
    few: str = "use"
    """What to do in a round of one or two updates: `use` their mean, or `skip` the round."""

    def __post_init__(self) -> None:
        _check("multi_krum", self.share, self.few)
        if self.keep is not None and (type(self.keep) is not int or self.keep < 1):
            raise ConfigError(
                f"multi_krum: `keep` should be a positive integer, or not given. "
                f"Found {self.keep!r}."
            )

    def kept(self, n: int) -> int:
        """Return how many of n updates, at least 3, are averaged."""
        return min(n, n - _attackers(self.share, n) if self.keep is None else self.keep)

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Aggregated:
        """Return the mean of the updates with the lowest scores."""
        n = len(counted(updates))
        keep = self.kept(n) if n >= LEAST else n
        return _picked("multi_krum", updates, state, self.share, self.few, keep)


def _check(rule: str, share: float, few: str) -> None:
    check_share(rule, share)
    if few not in FEW:
        raise ConfigError(f"{rule}: `few` should be one of {FEW}. Found {few!r}.")


def _attackers(share: float, n: int) -> int:
    return min(of_share(share, n), (n - 3) // 2)


def _picked(
    rule: str, updates: Sequence[Update], state: State, share: float, few: str, keep: int
) -> Aggregated:
    """Return the mean of the `keep` updates of lowest scores, by examples and weights."""
    found = counted(updates)
    if len(found) < LEAST:
        if few == "use":
            return Aggregated(mean_delta(found), state)
        reason = f"the round has {len(found)} updates, and Krum needs {LEAST}"
        return Aggregated(None, state, tuple(left_out(u, rule, reason) for u in found))
    ranks = scores(found, _attackers(share, len(found))).argsort(stable=True).tolist()
    chosen = sorted(ranks[:keep])
    notes = tuple(left_out(found[i], rule, "far from most others") for i in sorted(ranks[keep:]))
    return Aggregated(mean_delta([found[i] for i in chosen]), state, notes)
