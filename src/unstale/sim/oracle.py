"""Oracle figures: how far updates are from those that clients would have sent today.

Only a simulator can know them. They are never shown to a method; a round's line has them
under `oracle/...` to judge methods by.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from statistics import fmean

from torch import Tensor

from unstale.params import Params, cosine_distance, l1_error
from unstale.updates import Update

# (client id, base version): what tells two updates of one round apart.
Key = tuple[str, int]

# The distances in which errors are given, as the paper does: by direction, and relative to the size
# of the true update (`Σ|v − t| / Σ|t|`).
DISTANCES: dict[str, Callable[[Params, Params], float]] = {
    "cosine": cosine_distance,
    "l1": l1_error,
}


def errors(
    truth: Mapping[Key, Params], stale: Mapping[Key, Params], used: Sequence[Update]
) -> dict[str, float | None]:
    """Return the mean distances to the truth, as updates came and as they were used.

    Args:
        truth: What each late client would have sent from the current model.
        stale: What it did send.
        used: What was aggregated after compensation; updates that were dropped are missing.

    Returns:
        `stale_cosine` and `compensated_cosine`, and `stale_l1` and `compensated_l1`; None where
        nothing late arrived, or nothing that can be measured: training that diverges gives deltas
        that are not finite.
    """
    after = {(u.client_id, u.base_version): u.delta for u in used}
    found = {}
    for name, distance in DISTANCES.items():
        found[f"stale_{name}"] = _mean(distance(stale[k], truth[k]) for k in sorted(truth))
        compensated = (distance(after[k], truth[k]) for k in sorted(truth) if k in after)
        found[f"compensated_{name}"] = _mean(compensated)
    return found


def stand_in_error(truth: Mapping[str, Params], used: Sequence[Update]) -> dict[str, float | None]:
    """Return the mean distances of stand-ins to what the absent clients would have sent.

    Args:
        truth: What each client that was stood in for would have sent from the same model, by id.
        used: What was aggregated; updates that are no stand-ins are left out.

    Returns:
        `stand_in_cosine` and `stand_in_l1`, None where they cannot be measured; nothing if there
        were no stand-ins.
    """
    made = [update for update in used if update.stand_in and update.client_id in truth]
    if not made:
        return {}
    return {
        f"stand_in_{name}": _mean(distance(u.delta, truth[u.client_id]) for u in made)
        for name, distance in DISTANCES.items()
    }


def deltas(
    updates: Sequence[Update], *, without: Collection[str] = ()
) -> dict[Key, dict[str, Tensor]]:
    """Return updates' deltas by key, without running statistics (`without`, by name)."""
    return {
        (u.client_id, u.base_version): {n: p for n, p in u.delta.items() if n not in without}
        for u in updates
    }


def _mean(values: Iterable[float]) -> float | None:
    finite = [value for value in values if math.isfinite(value)]
    return fmean(finite) if finite else None
