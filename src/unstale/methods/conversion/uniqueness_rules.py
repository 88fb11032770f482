r"""Which updates hold something the others do not: two rules, by name.

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

That rule, `mean`, takes an update for unique also if its class is held by fewer clients
than classes are on average. The rule `nearest` compares the distance to one update alone,

$$ \min_{j\in S} D_c(w, w_j) \;>\; c\cdot\frac1{|S|^2}\sum_{j,k\in S} D_c(w_j, w_k), $$

with c = 1/2: something is common as soon as one other client holds it. For this the
unstale updates themselves are needed. Of each a short sketch is kept (`sketch.py`), from
which cosines can be read to about 0.02, and of at most 64 updates a version: the first in
the order of clients. The nearest of 64 is no nearer than the nearest of all, so that, where
the 64 are about as far apart as all are, leaving others out can only make a common update
look unique. It is then converted without need, which costs time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unstale.methods.conversion.sketch import sketch
from unstale.params import Params, flatten, to_device

MOST_SKETCHES = 64  # of one version
_ROUNDING = 1e-6  # what float32 may leave of the distance between equal directions


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


def sketched_directions(deltas: Sequence[Params]) -> Tensor:
    """Return sketches of the first updates' directions, of unit length `[clients, size]`.

    Example:
        >>> sketched_directions([{"w": torch.tensor([2.0, 0.0])}, {"w": torch.tensor([0.0, 5.0])}])
        tensor([[1., 0.],
                [0., 1.]])
    """
    sketches = [sketch(unit(to_device(delta, "cpu"))) for delta in deltas[:MOST_SKETCHES]]
    return torch.stack([unit({"": each}) for each in sketches]).float()


def nearest_distances(delta: Params, sketches: Tensor) -> tuple[float, float]:
    """Return an update's distance to the nearest of others, and the others' mean one."""
    each = sketches.double()
    own = sketched_directions([delta]).double()
    return float(_gaps(own, each).min()), float(_gaps(each, each).mean())


def _gaps(a: Tensor, b: Tensor) -> Tensor:
    """Return the cosine distances between rows; exactly 0 for equal directions."""
    gaps = 1.0 - a @ b.T
    return gaps.masked_fill(gaps < _ROUNDING, 0.0)


@dataclass(frozen=True, slots=True)
class Rule:
    """What is kept of a version's unstale updates, and what is compared by it."""

    key: str
    """Its place in the state: what one rule kept is nothing to the other."""
    remember: Callable[[Sequence[Params]], Tensor]
    distances: Callable[[Params, Tensor], tuple[float, float]]
    """The update's distance to the others, and the others' among themselves."""
    threshold: float
    """By how many times the first should be above the second, unless told otherwise."""


RULES = {
    "mean": Rule("directions", mean_direction, distances, 1.0),
    "nearest": Rule("sketches", sketched_directions, nearest_distances, 0.5),
}
