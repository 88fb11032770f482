r"""Two rules that decide which updates are unique: `mean` and `nearest`.

A stale update $w$ is compared with the fresh updates $S$ of its base version by the
cosine distance $D_c(a, b) = 1 - \hat a\cdot\hat b$, where $\hat a$ is the unit vector
of a. By the rule `mean` it is unique if its mean distance to them is larger than their
mean distance to each other:

$$ \frac1{|S|}\sum_{j\in S} D_c(w, w_j) \;>\; c\cdot
   \frac1{|S|^2}\sum_{j,k\in S} D_c(w_j, w_k), $$

with pairs $j = k$ included and the threshold $c = 1$, as in the paper. The dot product is
linear, so both sides follow from the mean of the unit vectors,
$m = \frac1{|S|}\sum_j \hat w_j$:

$$ \frac1{|S|}\sum_j (1 - \hat w\cdot\hat w_j) = 1 - \hat w\cdot m, \qquad
   \frac1{|S|^2}\sum_{j,k} (1 - \hat w_j\cdot\hat w_k) = 1 - m\cdot m. $$

So one vector of the model's size is kept for each version from which updates may still
arrive, whatever the number of clients.

With `mean`, an update is also unique if its class is held by fewer clients than the
average class. The rule `nearest` compares the distance to the nearest fresh update,

$$ \min_{j\in S} D_c(w, w_j) \;>\; c\cdot\frac1{|S|^2}\sum_{j,k\in S} D_c(w_j, w_k), $$

with c = 1/2, so that one client with similar data is enough to make an update common.
This needs the fresh updates themselves. Of at most 64 updates per version (the first by
client id) a count sketch is kept (`sketch.py`), which gives cosines to about 0.02. The
nearest of 64 is never nearer than the nearest of all, so leaving out the others can only
make a common update look unique (as long as the 64 are about as far from each other as
all are). It is then converted needlessly, which costs time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unstale.methods.conversion.sketch import sketch
from unstale.params import Params, flatten, to_device

MOST_SKETCHES = 64  # per version
_ROUNDING = 1e-6  # float32 error of the distance between equal directions


def unit(delta: Params) -> Tensor:
    """Return the unit vector of an update in double precision `[entries]`; zero for zero."""
    vector = flatten(delta).detach().double()
    size = torch.linalg.vector_norm(vector)
    return vector / size if size > 0 else vector


def mean_direction(deltas: Sequence[Params]) -> Tensor:
    """Return m, the mean of the unit vectors of updates `[entries]`.

    Example:
        >>> mean_direction([{"w": torch.tensor([2.0, 0.0])}, {"w": torch.tensor([0.0, 5.0])}])
        tensor([0.5000, 0.5000])
    """
    total = unit(deltas[0])
    for delta in deltas[1:]:
        total += unit(delta)
    return (total / len(deltas)).to(flatten(deltas[0]).dtype)


def distances(delta: Params, mean: Tensor) -> tuple[float, float]:
    """Return an update's mean distance to the fresh ones, and the mean distance among those."""
    mean = mean.double()
    return 1.0 - float(unit(delta) @ mean), 1.0 - float(mean @ mean)


def sketched_directions(deltas: Sequence[Params]) -> Tensor:
    """Return sketches of the first 64 updates, scaled to unit length `[clients, size]`.

    Example:
        >>> sketched_directions([{"w": torch.tensor([2.0, 0.0])}, {"w": torch.tensor([0.0, 5.0])}])
        tensor([[1., 0.],
                [0., 1.]])
    """
    sketches = [sketch(unit(to_device(delta, "cpu"))) for delta in deltas[:MOST_SKETCHES]]
    return torch.stack([unit({"": each}) for each in sketches]).float()


def nearest_distances(delta: Params, sketches: Tensor) -> tuple[float, float]:
    """Return an update's distance to the nearest fresh one, and the mean distance among those."""
    each = sketches.double()
    own = sketched_directions([delta]).double()
    return float(_gaps(own, each).min()), float(_gaps(each, each).mean())


def _gaps(a: Tensor, b: Tensor) -> Tensor:
    """Return the cosine distances between the rows of a and b; exactly 0 for equal rows."""
    gaps = 1.0 - a @ b.T
    return gaps.masked_fill(gaps < _ROUNDING, 0.0)


@dataclass(frozen=True, slots=True)
class Rule:
    """How fresh updates are stored, and how a stale update is compared with them."""

    key: str
    """Key in the state; each rule has its own, since they store different things."""
    remember: Callable[[Sequence[Params]], Tensor]
    """Returns the tensor that is kept of a version's fresh updates."""
    distances: Callable[[Params, Tensor], tuple[float, float]]
    """Returns an update's distance to the fresh updates, and the mean distance among those."""
    threshold: float
    """c, the default threshold on the ratio of the two distances."""


RULES = {
    "mean": Rule("directions", mean_direction, distances, 1.0),
    "nearest": Rule("sketches", sketched_directions, nearest_distances, 0.5),
}
