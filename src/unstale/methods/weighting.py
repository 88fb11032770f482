"""Weighting of stale updates by a function of their staleness τ, or by one factor.

The weight multiplies the number of examples in the aggregation. The aggregated mean
is normalised, so weights have no effect in a round whose updates are equally stale.
Fresh updates keep weight 1: three of the functions give 1 at τ = 0 anyway, and the
paper applies its sigmoid (0.92 at τ = 0) to stale updates only.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from unstale.errors import ConfigError
from unstale.methods.base import Stateless, per_update
from unstale.updates import Note, Outcome, ServerView, State, Update


def _weigh(
    updates: Sequence[Update], state: State, view: ServerView, weight_of: Callable[[int], float]
) -> Outcome:
    def treat(update: Update, view: ServerView) -> tuple[Update, Note]:
        weight = weight_of(update.staleness(view.version))
        note = Note("weighted", update.client_id, update.base_version, {"weight": weight})
        return dataclasses.replace(update, weight=update.weight * weight), note

    return per_update(updates, state, view, treat)


def _require_finite(method: str, **values: float) -> None:
    for name, value in values.items():
        if not math.isfinite(value):
            raise ConfigError(f"{method}: `{name}` should be a number. Found {value!r}.")


def _require_positive(method: str, **values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise ConfigError(f"{method}: `{name}` should be a number above 0. Found {value!r}.")


@dataclass(frozen=True, slots=True)
class SigmoidWeight(Stateless):
    r"""Weights a stale update by $1/(1+e^{a(\tau-b)})$.

    Example:
        >>> round(SigmoidWeight(a=0.25, b=10).weight(10), 3)
        0.5

    References:
        Shi et al., "HySync: Hybrid federated learning with effective synchronization",
        2020; the paper's *Weighted* with a = 0.25 and b = 10.
    """

    a: float = 0.25
    """Steepness of the sigmoid."""
    b: float = 10.0
    """The staleness at which the weight is one half."""

    def __post_init__(self) -> None:
        _require_positive("weighted", a=self.a)
        _require_finite("weighted", b=self.b)

    def weight(self, staleness: int) -> float:
        """Return the weight of an update of this staleness."""
        # exp of a negative number only, so that a large staleness cannot overflow.
        z = self.a * (staleness - self.b)
        return math.exp(-z) / (1 + math.exp(-z)) if z > 0 else 1 / (1 + math.exp(z))

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Multiply the weights of stale updates."""
        return _weigh(updates, state, view, self.weight)


@dataclass(frozen=True, slots=True)
class ScaledWeight(Stateless):
    """Weights every stale update by the same factor, which may be above 1.

    A factor above 1 strengthens stale updates: the paper's *Increased W*, whose size it does
    not give. With 1 the method is `unweighted`.

    Example:
        >>> ScaledWeight(factor=3).factor
        3

    References:
        The paper's Appendix B, on weighted aggregation.
    """

    factor: float = 2.0
    """The weight of a stale update, relative to a fresh one of as many examples."""

    def __post_init__(self) -> None:
        _require_positive("scaled", factor=self.factor)

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Multiply the weights of stale updates."""
        return _weigh(updates, state, view, lambda staleness: self.factor)


@dataclass(frozen=True, slots=True)
class PolynomialWeight(Stateless):
    r"""Weights a stale update by $(1+\tau)^{-a}$: the weights of FedAsync, applied to deltas.

    It is not FedAsync, which mixes each client's *model* into the global one as it arrives, by
    $(1-\alpha_t)\,w_t + \alpha_t\,w_i$ with $\alpha_t = \alpha(1+\tau)^{-a}$. With a = 0.5 the
    weight is FedBuff's $1/\sqrt{1+\tau}$.

    Example:
        >>> PolynomialWeight(a=0.5).weight(3)
        0.5

    References:
        Xie et al., "Asynchronous Federated Optimization" (FedAsync), 2019;
        Nguyen et al., "Federated Learning with Buffered Asynchronous Aggregation", 2022.
    """

    a: float = 0.5
    """The exponent."""

    def __post_init__(self) -> None:
        _require_positive("polynomial", a=self.a)

    def weight(self, staleness: int) -> float:
        """Return the weight of an update of this staleness."""
        return float((1 + staleness) ** -self.a)

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Multiply the weights of stale updates."""
        return _weigh(updates, state, view, self.weight)


@dataclass(frozen=True, slots=True)
class HingeWeight(Stateless):
    r"""Weights a stale update by 1 up to $\tau=b$ and by $1/(a(\tau-b)+1)$ beyond.

    These are the weights of FedAsync, applied to deltas; see `PolynomialWeight`.

    Example:
        >>> HingeWeight(a=10, b=4).weight(4), HingeWeight(a=10, b=4).weight(5)
        (1.0, 0.09090909090909091)

    References:
        Xie et al., "Asynchronous Federated Optimization" (FedAsync), 2019.
    """

    a: float = 10.0
    """Slope of the inverse weight beyond the hinge."""
    b: float = 4.0
    """The staleness up to which the weight is 1."""

    def __post_init__(self) -> None:
        _require_positive("hinge", a=self.a)
        _require_finite("hinge", b=self.b)

    def weight(self, staleness: int) -> float:
        """Return the weight of an update of this staleness."""
        return 1.0 if staleness <= self.b else 1.0 / (self.a * (staleness - self.b) + 1.0)

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Multiply the weights of stale updates."""
        return _weigh(updates, state, view, self.weight)


@dataclass(frozen=True, slots=True)
class ExponentialWeight(Stateless):
    r"""Weights a stale update by $e^{-a\tau}$.

    Example:
        >>> round(ExponentialWeight(a=0.1).weight(10), 3)
        0.368

    References:
        Chen et al., "Communication-Efficient Federated Deep Learning with Layerwise
        Asynchronous Model Update and Temporally Weighted Aggregation", 2019 (base e/2 there).
    """

    a: float = 0.1
    """Decay rate per version."""

    def __post_init__(self) -> None:
        _require_positive("exponential", a=self.a)

    def weight(self, staleness: int) -> float:
        """Return the weight of an update of this staleness."""
        return math.exp(-self.a * staleness)

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Multiply the weights of stale updates."""
        return _weigh(updates, state, view, self.weight)
