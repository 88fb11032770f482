r"""Calibration: how far estimates are trusted, by those that the server could check.

An estimate ê of today's update, made from the stale update s, is used as

$$ s + \lambda\,(\hat e - s), \qquad 0 \le \lambda \le 1, $$

where the *share* λ is learned. Each time that the true update Δ becomes known (of a fast
client in `probes.py`, of a slow one in `late_truths.py`) the server records a *pair*

$$ n = \frac{\langle \hat e - s,\ \Delta - s\rangle}{\lVert\Delta - s\rVert^2}, \qquad
   d = \frac{\lVert\hat e - s\rVert^2}{\lVert\Delta - s\rVert^2}. $$

With the share λ the squared error of that update would have been 1 − 2λn + λ²d times the
stale update's. The least mean of this over pairs of weight w, with a prior that counts as
`caution` pairs, is at

$$ \lambda = \frac{\sum w\,n + \text{caution}\cdot\text{prior\_share}}
                  {\sum w\,d + \text{caution}}, $$

clipped to [0, 1]. A pair weighs the more the closer its lag is to the staleness at hand, and
its number of fitted updates to that of the surrogate at hand, both on a log scale. Pairs of
the client itself weigh 4, of other slow clients 2, of fast ones 1; those of one surrogate
count as one pair together, since they agree with each other whether they are right or not.

Without any pair the share is `prior_share`. At 1/2 an update is not made worse by an estimate
whose squared error is up to three times the stale update's and points another way:
(1 − λ)² + λ²·3 = 1.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from unstale.methods.conversion.settings import Calibration
from unstale.params import Params, flatten
from unstale.updates import Note

# A pair: `n`, `d`, `lag` (versions between s and Δ), `updates` (that the surrogate was fitted to,
# one after the other or together), `fitted` (base version of s), `by` (name of the candidate),
# `late` (whether of a slow client), `stale_error`, `error` (cosine distances to Δ).
Pair = Mapping[str, Any]
# The state of the calibration; `new_book` lists its parts.
Book = Mapping[str, Any]

# Width of the closeness of lags and of numbers of updates: a factor of two weighs 0.6.
WIDTH = 0.7
# More updates than this make no difference to a surrogate any more.
MOST_UPDATES = 4
# An estimate that moves farther than this times the way to the truth (squared) counts as this far.
MOST_MOVE = 10.0
# Pairs that are kept of a client and a candidate, the newest ones.
MOST_PAIRS = 24
OWN, SLOW, FAST = 4.0, 2.0, 1.0


def new_book() -> Book:
    """Return the state before the first round.

    `pairs` are by client; `probes` and `seen`, `bases`, `fits`, `conversions`, `staleness` and
    `heard` belong to `probes.py`, `waiting` and `last` to `late_truths.py`.
    """
    return {
        "pairs": {},
        "probes": {},
        "seen": {},
        "bases": {},
        "fits": 0,
        "conversions": 0,
        "staleness": [],
        "heard": 0,
        "waiting": {},
        "last": {},
    }


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
        >>> s, e, t = torch.tensor([[1.0, 0.0], [1.0, 2.0], [1.0, 1.0]])
        >>> found = pair_of(s, e, t, lag=5, updates=1, fitted=0)
        >>> found["n"], found["d"]
        (2.0, 4.0)
    """
    stale, estimate, truth = stale.double(), estimate.double(), truth.double()
    moved, missing = estimate - stale, truth - stale
    n, d, e = float(moved @ missing), float(moved @ moved), float(missing @ missing)
    if not (e > 0 and math.isfinite(n) and math.isfinite(d) and math.isfinite(e)):
        return None
    size = max(e, d / MOST_MOVE)
    return {
        "n": n / size,
        "d": d / size,
        "lag": lag,
        "updates": min(updates, MOST_UPDATES),
        "fitted": fitted,
        "by": by,
        "late": late,
        "stale_error": _distance(stale, truth),
        "error": _distance(estimate, truth),
    }


def share_of(
    pairs: Mapping[str, Sequence[Pair]],
    client: str,
    staleness: int,
    updates: int,
    settings: Calibration,
    by: str = "",
) -> float:
    """Return the share of a client's estimate in what is used of it.

    Args:
        pairs: What is known, by client.
        client: The client.
        staleness: The staleness of its update.
        updates: How many of its updates the surrogate was fitted to.
        settings: How cautious to be.
        by: The candidate that the surrogate was fitted by.

    Example:
        >>> share_of({}, "c07", 40, 1, Calibration())
        0.5
        >>> right = {"n": 1.0, "d": 1.0, "lag": 40, "updates": 1, "fitted": 0, "by": "",
        ...          "late": False}
        >>> share_of({"c01": [right], "c02": [right]}, "c07", 40, 1, Calibration())
        0.75
    """
    top, bottom = settings.caution * settings.prior_share, settings.caution
    for owner, found in sorted(pairs.items()):
        for group in _by_surrogate(pair for pair in found if pair["by"] == by):
            close = [_closeness(pair, staleness, updates) for pair in group]
            source = FAST if not group[0]["late"] else OWN if owner == client else SLOW
            weight = source / max(1.0, sum(close))
            for pair, c in zip(group, close, strict=True):
                top += weight * c * pair["n"]
                bottom += weight * c * pair["d"]
    return min(max(top / bottom, 0.0), 1.0) if bottom > 0 else settings.prior_share


def mixed(stale: Params, estimate: Params, share: float) -> Params:
    """Return s + share·(ê − s); for 0 and 1 the stale update and the estimate themselves."""
    if share in (0.0, 1.0):
        return estimate if share else stale
    return {n: s + share * (estimate[n].to(s) - s) for n, s in stale.items()}


def with_pair(book: Book, client: str, pair: Pair) -> Book:
    """Return the book with one more pair of a client."""
    pairs = book["pairs"].get(client, [])
    alike = [p for p in pairs if (p["by"], p["late"]) == (pair["by"], pair["late"])]
    if len(alike) >= MOST_PAIRS:
        pairs = [p for p in pairs if p is not alike[0]]
    return {**book, "pairs": {**book["pairs"], client: [*pairs, pair]}}


def pruned(book: Book, most: int) -> Book:
    """Return the book with what concerns at most `most` clients, those compared or converted last.

    Args:
        book: The state of the calibration.
        most: The maximum number of clients.
    """

    def latest(part: Mapping[str, Any], newest: Callable[[Any], int]) -> dict[str, Any]:
        filled = [client for client in part if part[client]]
        order = sorted(filled, key=lambda client: (-newest(part[client]), client))
        return {client: part[client] for client in sorted(order[:most])}

    return {
        **book,
        "pairs": latest(book["pairs"], lambda pairs: max(p["fitted"] + p["lag"] for p in pairs)),
        "waiting": latest(book["waiting"], lambda waiting: waiting[-1]["target"]),
        "last": latest(book["last"], lambda last: last["version"]),
    }


def note_of(client: str, version: int, pair: Pair) -> Note:
    """Return the note of a pair: what the truth said of an estimate.

    Args:
        client: The client.
        version: The version that the true update started from.
        pair: The pair.
    """
    detail = {key: pair[key] for key in ("lag", "stale_error", "error", "late")}
    found = pair["n"] / pair["d"] if pair["d"] > 0 else 0.0
    detail["share"] = min(max(found, 0.0), 1.0)
    return Note("calibrated", client, version, detail | ({"by": pair["by"]} if pair["by"] else {}))


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


def _closeness(pair: Pair, staleness: int, updates: int) -> float:
    lag = math.log(pair["lag"] / staleness) / WIDTH
    known = math.log(pair["updates"] / min(updates, MOST_UPDATES)) / WIDTH
    return math.exp(-(lag * lag + known * known) / 2)


def _distance(a: Tensor, b: Tensor) -> float:
    size = float(a.norm() * b.norm())
    return 1.0 - float(a @ b) / size if size > 0 else 1.0
