r"""How far stand-ins are trusted: what the client's own updates showed of earlier ones.

When a client's next update Δ arrives, the server trains the surrogate that has stood in for it
once more, from the version that Δ was trained from, and compares the result s with Δ. The
least-squares share of s in Δ,

$$ c = \frac{\langle s, \Delta\rangle}{\lVert s\rVert^2}, $$

is 1 if the stand-in was right, 0 if it had nothing of Δ, and above 1 if it pointed the right
way and was too small. The last is the rule rather than the exception: a surrogate is easier to
learn than the data, and the more often it has stood in, the less it has left to teach.

Such a check is made at the age a at which the client took up its next work. By then the
surrogate is about half as old as it gets, since it stands in until that work arrives. So the
surrogate of before is kept, and compared once more with the update after the next.

From checks of ages a and shares c follows by least squares how the share changes with age,

$$ 1 + \kappa\,a', \qquad \kappa = \frac{\sum a\,(c - 1)}{\sum a^2}. $$

A share below 1 is the weight of a stand-in of age a' in the aggregation. A share above 1 is the
factor by which it is scaled up, within a bound.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from unstale.methods.conversion.client_memory import Entry
from unstale.methods.conversion.settings import StandIn
from unstale.params import Params, cosine_distance, flatten, l1_error
from unstale.updates import Note, Update

# Comparisons that are remembered of each client, the newest ones: two for each of four updates.
MOST_CHECKS = 8
# Shares beyond this are the chance of a stand-in that was next to nothing.
MOST_SHARE = 2.0


def share_of(client: str, clients: Mapping[str, Entry], version: int, settings: StandIn) -> float:
    """Return what a stand-in for a client is worth: 0 for none, 1 for what it is, above for more.

    Args:
        client: The client.
        clients: What is known of all clients.
        version: The current version.
        settings: The limits on stand-ins.
    """
    entry = clients.get(client, {})
    if not settings.enabled or "x" not in entry:
        return 0.0
    age = version - entry["version"]
    if age > settings.max_age:
        return 0.0
    if not settings.checked:
        return 1.0
    # A client that was not checked yet is trusted as the others are on average.
    own = entry.get("checks") or [c for e in clients.values() for c in e.get("checks", [])]
    return float(min(max(1.0 + _slope(own) * age, 0.0), settings.max_scale))


def _slope(checks: Sequence[Sequence[float]]) -> float:
    """Return by how much the share changes with each version of age, by least squares.

    Example:
        >>> _slope([[10, 0.5], [20, 0.0]])
        -0.05
    """
    size = sum(age * age for age, _ in checks)
    return sum(age * (share - 1.0) for age, share in checks) / size if size else 0.0


def with_check(
    entry: Entry, update: Update, made_from: int, change: Params
) -> tuple[dict[str, Any], list[Note]]:
    """Compare a client's own update with its stand-in for the same version.

    Args:
        entry: What is known of the client.
        update: The client's own update.
        made_from: The version of the update that the surrogate was fitted to.
        change: What training that surrogate from the update's base version changes.

    Returns:
        The entry with the result, and the note of it; none if the two cannot be compared.
    """
    age = update.base_version - made_from
    made, truth = flatten(change).double(), flatten(update.delta).double()
    size = float(made @ made)
    if not math.isfinite(size):  # the training diverged
        return dict(entry), []
    share = float(made @ truth) / size if size > 0 else 0.0
    share = min(max(share, 0.0), MOST_SHARE)
    checks = [*entry.get("checks", []), [age, share]][-MOST_CHECKS:]
    error, l1 = cosine_distance(change, update.delta), l1_error(change, update.delta)
    detail = {"age": age, "error": error, "l1": l1, "share": share}
    return {**entry, "checks": checks}, [
        Note("checked", update.client_id, update.base_version, detail)
    ]
