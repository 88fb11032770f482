"""Oracle figures: how far updates are from those that clients would have sent today.

Only a simulator can know them. They are never shown to a method; a round's line has them
under `oracle/...` to judge methods by.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from torch import Tensor

from unstale.params import Params, cosine_distance
from unstale.updates import Update

# (client id, base version): what tells two updates of one round apart.
Key = tuple[str, int]


def errors(
    truth: Mapping[Key, Params], stale: Mapping[Key, Params], used: Sequence[Update]
) -> dict[str, float | None]:
    """Return the mean cosine distance to the truth, as updates came and as they were used.

    Args:
        truth: What each late client would have sent from the current model.
        stale: What it did send.
        used: What was aggregated after compensation; updates that were dropped are missing.

    Returns:
        `stale_cosine` and `compensated_cosine`; None where nothing late arrived, or nothing that
        can be measured: training that diverges gives deltas that are not finite.
    """
    after = {(u.client_id, u.base_version): u.delta for u in used}
    before = [cosine_distance(stale[key], truth[key]) for key in sorted(truth)]
    compensated = [cosine_distance(after[k], truth[k]) for k in sorted(truth) if k in after]
    return {
        "stale_cosine": _mean(before),
        "compensated_cosine": _mean(compensated),
    }


def stand_in_error(truth: Mapping[str, Params], used: Sequence[Update]) -> dict[str, float | None]:
    """Return the mean cosine distance of stand-ins to what the absent clients would have sent.

    Args:
        truth: What each client that was stood in for would have sent from the same model, by id.
        used: What was aggregated; updates that are no stand-ins are left out.

    Returns:
        `stand_in_cosine`, None where it cannot be measured; nothing if there were no stand-ins.
    """
    made = [update for update in used if update.stand_in and update.client_id in truth]
    if not made:
        return {}
    return {"stand_in_cosine": _mean(cosine_distance(u.delta, truth[u.client_id]) for u in made)}


def deltas(updates: Sequence[Update]) -> dict[Key, dict[str, Tensor]]:
    """Return updates' deltas by key."""
    return {(u.client_id, u.base_version): dict(u.delta) for u in updates}


def _mean(values: Iterable[float]) -> float | None:
    finite = [value for value in values if math.isfinite(value)]
    return fmean(finite) if finite else None
