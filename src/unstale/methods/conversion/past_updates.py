"""Past updates of clients, which the next surrogate is fitted to as well.

With `Inversion.history` = h the last h−1 stale updates of each client are remembered,
converted or not. A client's entry has them under `past`, oldest first, each with `version`
and `delta`. The base weights that they started from are kept once for all clients, in the
state's `bases`, by version, and are dropped as soon as no client's `past` refers to them:

    {"clients": {"c07": {"past": [{"version": 12, "delta": …}], …}}, "bases": {"12": …}}

Memory: h−1 updates of the model's size for each client, and one copy of the weights for
each version that these updates started from.
"""

from collections.abc import Iterable, Mapping

from unstale.inversion.request import Sent
from unstale.inversion.target import size_fault
from unstale.methods.conversion.client_memory import Entry, Known, latest
from unstale.params import Params
from unstale.updates import State

# Base weights by version; text, since the keys of a state are.
Bases = Mapping[str, Params]


def past_of(
    entry: Entry, bases: Bases, others: Iterable[Known], version: int, depth: int
) -> list[Sent]:
    """Return the client's newest updates besides the one that is converted, the newest last.

    Args:
        entry: The client's part of the state.
        bases: The base weights in the state.
        others: The client's updates of this round.
        version: The base version of the update that is converted.
        depth: The maximum number of updates to return.
    """
    found = {p["version"]: (bases[str(p["version"])], p["delta"]) for p in entry.get("past", [])}
    found |= {update.base_version: (base, update.delta) for update, base in others}
    found.pop(version, None)
    return [found[v] for v in sorted(found)[-depth:]] if depth else []


def remember(state: State, known: Iterable[Known], depth: int, now: int) -> State:
    """Return the state in which these stale updates are among the past ones of their clients.

    Stand-ins are left out, since no client has sent them, and so are updates that no fit
    could use (zero, or absurdly large).

    Args:
        state: The state; entries of clients that it does not know are made.
        known: Stale updates, each with the weights of its base version.
        depth: The number of updates that are kept for each client, the newest ones.
        now: The current version.
    """
    clients: dict[str, Entry] = dict(state["clients"])
    bases: dict[str, Params] = dict(state["bases"])
    for update, base in known:
        if not depth or update.stand_in or size_fault(update.delta, base):
            continue
        entry = clients.get(update.client_id, {})
        version = update.base_version
        past = {p["version"]: p for p in entry.get("past", [])}
        past[version] = {"version": version, "delta": dict(update.delta)}
        newest = [past[v] for v in sorted(past)[-depth:]]
        clients[update.client_id] = {**entry, "seen": now, "past": newest}
        # The first copy stays: another may have been read from disk.
        bases.setdefault(str(version), dict(base))
    return {**state, "clients": clients, "bases": bases}


def pruned(state: State, most: int) -> State:
    """Return the state with at most `most` clients, and with the bases that they refer to."""
    clients = latest(state["clients"], most)
    used = {p["version"] for entry in clients.values() for p in entry.get("past", [])}
    bases = {str(version): state["bases"][str(version)] for version in sorted(used)}
    return {**state, "clients": clients, "bases": bases}
