"""Borrowing: the surrogate of a client with a similar update, as a start for another's first fit.

Clients are similar if their updates point the same way. What is compared is the newest of
the past updates that the state holds of a client (`past_updates.py`), so nobody has
anything to lend with `Inversion.history` = 1.
"""

from collections.abc import Mapping

from unstale.inversion import Surrogate
from unstale.methods.conversion.client_memory import Entry, surrogate_of
from unstale.params import Params, cosine_distance, to_device

# Clients that an update is compared with: those heard of last. Bounds the time for large models.
MOST_COMPARED = 64


def borrowed_for(
    client: str, delta: Params, clients: Mapping[str, Entry], most: int = MOST_COMPARED
) -> Surrogate | None:
    """Return the surrogate of the other client whose update is most similar to `delta`.

    None if no other client has both a surrogate and a past update whose cosine with `delta`
    is positive. Of equally similar clients the first by name lends.

    Args:
        client: The client whose update is fitted.
        delta: That update.
        clients: The entries of all clients in the state.
        most: The number of clients to compare with.
    """
    lenders = sorted(
        (name for name, entry in clients.items() if name != client and _can_lend(entry)),
        key=lambda name: (-clients[name]["seen"], name),
    )
    device = next(iter(delta.values())).device
    distances = {
        name: cosine_distance(to_device(clients[name]["past"][-1]["delta"], device), delta)
        for name in lenders[:most]
    }
    nearest = min(distances, key=lambda name: (distances[name], name), default=None)
    if nearest is None or not distances[nearest] < 1:
        return None
    return surrogate_of(clients[nearest])


def _can_lend(entry: Entry) -> bool:
    return "x" in entry and bool(entry.get("past"))
