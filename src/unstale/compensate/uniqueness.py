r"""Uniqueness: only updates that hold something the others do not are compensated.

An update $w$ from version $b$ is compared with the unstale updates $S$ of that
version, in the cosine distance $D_c(a, b) = 1 - \hat a\cdot\hat b$ of their unit
vectors. It is unique if its mean distance to them is above their own:

$$ \frac1{|S|}\sum_{j\in S} D_c(w, w_j) \;>\; c\cdot
   \frac1{|S|^2}\sum_{j,k\in S} D_c(w_j, w_k), $$

pairs with $j = k$ included, as the paper writes it; the threshold $c$ is 1 there. Both sides need
nothing but the mean of the unit vectors, $m = \frac1{|S|}\sum_j \hat w_j$, since sums
go through the dot product:

$$ \frac1{|S|}\sum_j (1 - \hat w\cdot\hat w_j) = 1 - \hat w\cdot m, \qquad
   \frac1{|S|^2}\sum_{j,k} (1 - \hat w_j\cdot\hat w_k) = 1 - m\cdot m. $$

So one vector of the model's size is kept for each version from which updates may
still come, however many clients there were.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unstale.compensate.base import Compensator, surrogates_of
from unstale.compensate.preparing import Preparation, preparation_of
from unstale.compensate.wrapping import check_inner, in_order, is_kept
from unstale.errors import ConfigError
from unstale.invert import Surrogate
from unstale.params import Params, flatten
from unstale.updates import Note, Outcome, ServerView, State, Update

UNKNOWN = ("convert", "keep")


def unit(delta: Params) -> Tensor:
    """Return the update's direction in double precision `[entries]`; zero for a zero update."""
    vector = flatten(delta).detach().double()
    size = torch.linalg.vector_norm(vector)
    return vector / size if size > 0 else vector


def mean_direction(deltas: Sequence[Params]) -> Tensor:
    """Return m, the mean of the updates' directions `[entries]`.

    Example:
        >>> mean_direction([{"w": torch.tensor([2.0, 0.0])}, {"w": torch.tensor([0.0, 5.0])}])
        tensor([0.5000, 0.5000])
    """
    total = unit(deltas[0])
    for delta in deltas[1:]:
        total += unit(delta)
    return (total / len(deltas)).to(flatten(deltas[0]).dtype)


def distances(delta: Params, mean: Tensor) -> tuple[float, float]:
    """Return an update's mean distance to the others, and the others' among themselves."""
    mean = mean.double()
    return 1.0 - float(unit(delta) @ mean), 1.0 - float(mean @ mean)


@dataclass(frozen=True, slots=True)
class OnlyUnique:
    """Compensates only unique updates; made by `only_unique`.

    Memory: one vector of the model's size for each version that the history keeps and
    that had unstale updates.
    """

    inner: Compensator
    """What is done to unique updates."""
    threshold: float = 1.0
    """By how many times its distance should be above the others' among themselves."""
    unknown: str = "convert"
    """What becomes of an update from a version without unstale updates: `convert` or `keep`."""

    def __post_init__(self) -> None:
        check_inner("only_unique", self.inner)
        if not (self.threshold >= 0 and math.isfinite(self.threshold)):
            raise ConfigError(
                "only_unique: `threshold` should be a number of at least 0. "
                f"Found {self.threshold!r}."
            )
        if self.unknown not in UNKNOWN:
            raise ConfigError(
                f"only_unique: `unknown` should be one of {UNKNOWN}. Found {self.unknown!r}."
            )

    @property
    def lookback(self) -> int:
        """What the inner one reads."""
        return self.inner.lookback

    def init(self) -> State:
        """Return the inner memory, and no directions."""
        return {"inner": self.inner.init(), "directions": {}}

    def surrogates(self, state: State) -> dict[str, Surrogate]:
        """Return those of the inner one."""
        return surrogates_of(self.inner, state["inner"])

    def prepare(self, update: Update, state: State, view: ServerView) -> Preparation | None:
        """Return what the inner one prepares for a unique update; nothing for others."""
        if self._common(update, state["directions"].get(str(update.base_version))) is not None:
            return None
        return preparation_of(self.inner, update, state["inner"], view)

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Hand unique and fresh updates to the inner one; pass the others as they came."""
        directions: dict[str, Tensor] = {
            version: mean
            for version, mean in state["directions"].items()
            if is_kept(view, int(version))
        }
        passed: list[Update] = []
        given: list[Update] = []
        notes: list[Note] = []
        for update in updates:
            note = None
            if update.staleness(view.version) > 0:
                note = self._common(update, directions.get(str(update.base_version)))
            if note is None:
                given.append(update)
            else:
                passed.append(update)
                notes.append(note)
        fresh = [u.delta for u in updates if u.staleness(view.version) == 0]
        if fresh:
            directions[str(view.version)] = mean_direction(fresh)
        outcome = self.inner.apply(given, state["inner"], view)
        return Outcome(
            in_order([*outcome.updates, *passed], updates),
            {"inner": outcome.state, "directions": directions},
            (*notes, *outcome.notes),
        )

    def _common(self, update: Update, mean: Tensor | None) -> Note | None:
        """Return a note if the update holds nothing special, else None."""
        if mean is None:
            if self.unknown == "convert":
                return None
            why = {"reason": "no unstale updates of its version"}
            return Note("kept", update.client_id, update.base_version, why)
        distance, others = distances(update.delta, mean)
        if distance > self.threshold * others:
            return None
        detail = {"distance": distance, "threshold": self.threshold * others}
        return Note("kept", update.client_id, update.base_version, detail)


def only_unique(inner: Compensator, threshold: float = 1.0, unknown: str = "convert") -> OnlyUnique:
    """Return the compensator that applies `inner` to unique updates only.

    Example:
        >>> from unstale.compensate import FirstOrder
        >>> only_unique(FirstOrder()).threshold
        1.0

    References:
        Wang and Gao, Tackling Intertwined Data and Device Heterogeneities in Federated
        Learning with Unlimited Staleness, on protecting clients' data privacy.
    """
    return OnlyUnique(inner, threshold, unknown)
