"""Borrowing: a client's first fit may begin from the surrogate of a client with a similar update.

Clients whose updates point the same way hold similar data. Only clients that the server
remembers an update of are compared, so borrowing needs `Inversion.history` of at least 2.
"""

from collections.abc import Mapping

from unstale.inversion import Surrogate
from unstale.methods.conversion.client_memory import Entry, surrogate_of
from unstale.params import cosine_distance
from unstale.updates import Update

# The largest cosine distance at which two updates count as similar.
_SIMILAR = 0.5


def borrowed_for(update: Update, clients: Mapping[str, Entry]) -> Surrogate | None:
    """Return the surrogate of the client whose newest remembered update is the most similar.

    Args:
        update: The update of a client that has no surrogate yet.
        clients: What is known of all clients.

    Returns:
        None if no other client with a surrogate has sent anything similar.
    """
    nearest, least = None, _SIMILAR
    for client, entry in sorted(clients.items()):
        if client == update.client_id or "x" not in entry or not entry.get("past"):
            continue
        distance = cosine_distance(entry["past"][-1]["delta"], update.delta)
        if distance < least:
            nearest, least = entry, distance
    return None if nearest is None else surrogate_of(nearest)
