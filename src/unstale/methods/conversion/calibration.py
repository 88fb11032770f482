r"""Calibration: how far estimates are trusted, by those that the server could check.

An estimate ê of today's update was made from the stale update s. What is used of both has the
direction and the norm

$$ (1-\lambda)\,\frac{s}{|s|} + \lambda\,\frac{\hat e}{|\hat e|}, \qquad
   |s|^{1-\mu}\,|\hat e|^{\mu}, $$

where the *shares* λ and μ, both in [0, 1], are learned. They are apart because norms of updates
fall while a model learns: then even an estimate of a wrong direction is nearer to the truth
than a stale update that is far too long.

Each time that a true update Δ becomes known (of a fast client in `probes.py`, of a slow one in
`late_truths.py`) the server records a *pair*. With the unit vectors of s, ê and Δ,

$$ n = \frac{\langle \hat e - s, \Delta - s\rangle}{|\Delta - s|^2}, \qquad
   d = \frac{|\hat e - s|^2}{|\Delta - s|^2}; $$

with a share λ the squared error of that direction would have been 1 − 2λn + λ²d times the
stale one's. That of the estimate itself is r = 1 − 2n + d. An estimate for another client may be
worse than those that could be checked: there it counts as ρ times as large (`doubt`), so that d
becomes d' = d + (ρ − 1)r. An estimate that was right stays trusted, since its r is 0. With the
stale direction's cosine distance e, the least mean error over pairs of weight w, with a prior λ₀
(`prior_share`) that counts as c pairs (`caution`), is at

$$ \lambda = \frac{\sum w\,e\,n + c\,\bar e\,\lambda_0}{\sum w\,e\,d' + c\,\bar e}, $$

clipped to [0, 1], where ē is the mean of e; μ likewise with ln|ê|/|s| in place of ê − s,
ln|Δ|/|s| of Δ − s, and no e. Without e it would be the mean of ratios that is least, and
clients that hardly changed, who need no estimate, would decide for all.

A pair weighs the more the closer its lag is to the staleness at hand, the version of its truth
to the current one, and the number of updates that its surrogate was fitted to, all on a log
scale. Pairs of the client itself weigh 4, of other slow clients 2, of fast ones 1; those of one
surrogate count as one pair together, since they are right or wrong together.

Without any pair the share is `prior_share`. At 1/2 an update is not made worse by an estimate
whose squared error is up to three times the stale update's, if the two errors have nothing in
common: (1 − λ)² + 3λ² = 1.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from unstale.methods.conversion.settings import Calibration
from unstale.params import Params, flatten, norm
from unstale.updates import Update

# A pair: `n`, `d`, `longer` (ln|ê|/|s|), `wanted` (ln|Δ|/|s|), `lag` (versions between s and Δ),
# `updates` (that the surrogate was fitted to, one after the other or together), `fitted` (base
# version of s), `by` (name of the candidate), `late` (whether of a slow client), `stale_error`,
# `error` (cosine distances to Δ).
Pair = Mapping[str, Any]

# Width of the closeness of lags, versions and numbers of updates: a factor of two weighs 0.6.
WIDTH = 0.7
# More updates than this make no difference to a surrogate any more.
MOST_UPDATES = 4
# An estimate that moves farther than this times the way to the truth (squared) counts as this far.
MOST_MOVE = 4.0
# The square of ln|ê|/|s| of the pairs that the prior counts as: norms that change by e^½ = 1.65.
PRIOR_LONGER = 0.25
OWN, SLOW, FAST = 4.0, 2.0, 1.0


def pair_of(
    stale: Tensor,
    estimate: Tensor,
    truth: Tensor,
    *,
    lag: int,
    updates: int,
    fitted: int,
    by: str = "",
    late: bool = False,
) -> Pair | None:
    """Return the pair of an estimate whose truth is known; None if nothing can be learned.

    Args:
        stale: The stale update as a vector, or a sketch of it.
        estimate: What it was converted to, likewise.
        truth: What the client sent from that version, likewise.
        lag: The versions between the stale update's base and the truth's.
        updates: How many updates the surrogate was fitted to.
        fitted: The base version of the stale update.
        by: The candidate that the surrogate was fitted by.
        late: Whether the client is a slow one.

    Example:
        >>> import torch
        >>> s, e, t = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 4.0]])
        >>> found = pair_of(s, e, t, lag=5, updates=1, fitted=0)
        >>> found["n"], found["d"], found["longer"] / found["wanted"]
        (1.0, 1.0, 0.5)
    """
    vectors = [v.double() for v in (stale, estimate, truth)]
    norms = [float(v.norm()) for v in vectors]
    if not all(length > 0 and math.isfinite(length) for length in norms):
        return None
    s, e, t = (v / length for v, length in zip(vectors, norms, strict=True))
    moved, missing = e - s, t - s
    n, d, size = float(moved @ missing), float(moved @ moved), float(missing @ missing)
    if not size > 0:
        return None
    size = max(size, d / MOST_MOVE)
    return {
        "n": n / size,
        "d": d / size,
        "longer": math.log(norms[1] / norms[0]),
        "wanted": math.log(norms[2] / norms[0]),
        "lag": lag,
        "updates": min(updates, MOST_UPDATES),
        "fitted": fitted,
        "by": by,
        "late": late,
        "stale_error": 1.0 - float(s @ t),
        "error": 1.0 - float(e @ t),
    }


@dataclass(frozen=True, slots=True)
class Shares:
    """How much of an estimate is used."""

    direction: float
    """λ: its share in the direction."""
    norm: float
    """μ: its share in the norm, on a log scale."""


def shares_of(
    pairs: Mapping[str, Sequence[Pair]],
    stale: Update,
    now: int,
    updates: int,
    settings: Calibration,
    by: str = "",
) -> Shares:
    """Return the shares of an estimate in what is used.

    Args:
        pairs: What is known, by client.
        stale: The update that was converted.
        now: The current version.
        updates: How many of the client's updates the surrogate was fitted to.
        settings: How cautious to be.
        by: The candidate that the surrogate was fitted by.

    Example:
        >>> import torch
        >>> late = Update("c07", 10, {"w": torch.ones(2)}, 40)
        >>> shares_of({}, late, 50, 1, Calibration()).direction
        0.5
        >>> right = {"n": 1.0, "d": 1.0, "longer": 1.0, "wanted": 1.0, "lag": 40, "updates": 1,
        ...          "fitted": 10, "by": "", "late": False, "stale_error": 0.5}
        >>> shares_of({"c01": [right], "c02": [right]}, late, 50, 1, Calibration(caution=2))
        Shares(direction=0.75, norm=0.9)
        >>> wrong = {"c01": [right | {"n": 0.0}]}  # a squared error of twice the stale one's
        >>> shares_of(wrong, late, 50, 1, Calibration()).direction
        0.125
    """
    weighed = _weighed(pairs, stale, now, updates, by)
    total = sum(weight for weight, _, _ in weighed)
    # What the prior's pairs would have had as their stale error: as much as the others.
    usual = sum(w * pair["stale_error"] for w, _, pair in weighed) / total if total > 0 else 1.0
    known, prior = settings.caution, settings.caution * settings.prior_share
    sums = [usual * prior, usual * known, PRIOR_LONGER * prior, PRIOR_LONGER * known]
    for weight, source, pair in weighed:
        n, d, longer, wanted = (pair[key] for key in ("n", "d", "longer", "wanted"))
        error = pair["stale_error"]
        doubted = 0.0 if source == OWN else settings.doubt - 1.0
        d += doubted * relative_error(pair)
        length = longer**2 + doubted * (wanted - longer) ** 2
        for i, term in enumerate((error * n, error * d, longer * wanted, length)):
            sums[i] += weight * term

    def share(top: float, bottom: float) -> float:
        return min(max(top / bottom, 0.0), 1.0) if bottom > 0 else settings.prior_share

    return Shares(share(sums[0], sums[1]), share(sums[2], sums[3]))


def _weighed(
    pairs: Mapping[str, Sequence[Pair]], stale: Update, now: int, updates: int, by: str
) -> list[tuple[float, float, Pair]]:
    """Return each pair with its weight for an update and its source's; see `shares_of`."""
    found = []
    for owner, known in sorted(pairs.items()):
        for group in _by_surrogate(pair for pair in known if pair["by"] == by):
            close = [_closeness(pair, stale.staleness(now), now, updates) for pair in group]
            source = FAST if not group[0]["late"] else OWN if owner == stale.client_id else SLOW
            weight = source / max(1.0, sum(close))
            found += [(weight * c, source, pair) for pair, c in zip(group, close, strict=True)]
    return found


def mixed(stale: Params, estimate: Params, shares: Shares) -> Params:
    """Return what is used of a stale update and its estimate.

    Example:
        >>> import torch
        >>> s, e = {"w": torch.tensor([4.0, 0.0])}, {"w": torch.tensor([0.0, 1.0])}
        >>> mixed(s, e, Shares(direction=0.5, norm=0.5))["w"]
        tensor([1.4142, 1.4142])
    """
    before, after = norm(stale), norm(estimate)
    if shares == Shares(1.0, 1.0) or not (before > 0 and after > 0):
        return estimate
    a, b = (1.0 - shares.direction) / before, shares.direction / after
    between = {n: a * s + b * estimate[n].to(s) for n, s in stale.items()}
    if not (size := norm(between)) > 0:  # opposite directions
        return stale
    wanted = before ** (1.0 - shares.norm) * after**shares.norm
    return {n: (wanted / size) * p for n, p in between.items()}


def relative_error(pair: Pair) -> float:
    """Return the squared error of the estimate as a multiple of the stale update's."""
    return max(1.0 - 2.0 * float(pair["n"]) + float(pair["d"]), 0.0)


def vector_of(params: Params) -> Tensor:
    """Return an update as one vector in double precision."""
    return flatten(params).double()


def _by_surrogate(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Yield the pairs of one client in groups that share a surrogate."""
    groups: dict[tuple[int, bool], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair["fitted"], pair["late"]), []).append(pair)
    yield from groups.values()


def _closeness(pair: Pair, staleness: int, now: int, updates: int) -> float:
    ratios = (
        pair["lag"] / staleness,
        (pair["fitted"] + pair["lag"]) / now,
        pair["updates"] / min(updates, MOST_UPDATES),
    )
    return math.exp(-sum((math.log(ratio) / WIDTH) ** 2 for ratio in ratios) / 2)
