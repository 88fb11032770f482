r"""Tiers of clients: who is in which, and what each one weighs.

A client's tier follows from its latency, as the engine registered it or as the server has
seen it (`ServerView.clients`). So the size of a tier is known before anything has arrived
from it. A tier of which no client is registered does not exist. Tiers are numbered from the
fastest, 0.

Two rules weigh tier m of M: by its number of clients, or by the number of rounds of the
opposite tier, $T_{M+1-m}$. A round of a tier is one in which something of it arrived.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from unstale.errors import ConfigError
from unstale.updates import ServerView, Update

WEIGHINGS = ("clients", "reversed")


class Tiered(NamedTuple):
    """The clients and the updates of a round in tiers."""

    sizes: Mapping[int, int]
    """The number of registered clients of each tier that has any, by tier, fastest first."""
    updates: Mapping[int, Sequence[Update]]
    """The updates of the round by tier, those of weight 0 left out."""


def tier_of(latency: float, bounds: Sequence[int]) -> int:
    """Return the tier of a client of this latency; 0 is the fastest.

    Example:
        >>> [tier_of(latency, bounds=(0, 20)) for latency in (0, 7, 20, 21)]
        [0, 1, 1, 2]
    """
    return sum(latency > bound for bound in bounds)


def in_tiers(
    method: str, updates: Sequence[Update], view: ServerView, bounds: Sequence[int]
) -> Tiered:
    """Return clients and updates in tiers. An update is in the tier of its client.

    Raises:
        ConfigError: If no client is registered.
    """
    if not view.clients:
        raise ConfigError(
            f"{method}: all clients should be registered before the first step, since tiers have "
            "their sizes from that. Found none. Call `server.register(client_id)` for each "
            "client, or use an engine that does (the simulator, Flower)."
        )
    # A client that is not registered counts as well, from its update on.
    latencies = {u.client_id: float(u.staleness(view.version)) for u in updates} | {**view.clients}
    tiers = {client: tier_of(latency, bounds) for client, latency in latencies.items()}
    sizes = dict.fromkeys(sorted({*tiers.values()}), 0)
    for tier in tiers.values():
        sizes[tier] += 1
    found: dict[int, list[Update]] = {}
    for update in updates:
        if update.weight > 0:
            found.setdefault(tiers[update.client_id], []).append(update)
    return Tiered(sizes, dict(sorted(found.items())))


def tier_weights(
    weighing: str, sizes: Mapping[int, int], rounds: Sequence[int]
) -> dict[int, float]:
    """Return the weight of each tier, not normalised.

    Args:
        weighing: `clients` or `reversed`.
        sizes: The number of clients of each tier.
        rounds: In how many rounds something of each tier arrived, at the tier's index.

    Example:
        >>> tier_weights("reversed", sizes={0: 90, 1: 10}, rounds=[60, 1])
        {0: 1.0, 1: 60.0}
    """
    if weighing == "clients":
        return {tier: float(size) for tier, size in sizes.items()}
    order = sorted(sizes)
    return {
        tier: float(rounds[opposite]) for tier, opposite in zip(order, reversed(order), strict=True)
    }


def check_bounds(method: str, bounds: Sequence[int]) -> tuple[int, ...]:
    """Return the bounds as a tuple; raise ConfigError unless they are rising integers."""
    found = tuple(bounds)
    whole = all(type(bound) is int for bound in found)
    rising = whole and all(a < b for a, b in itertools.pairwise(found))
    if not found or not rising or found[0] < 0:
        raise ConfigError(
            f"{method}: `bounds` should be rising integers of at least 0. Found {found!r}."
        )
    return found


def check_weighing(method: str, weighing: str) -> None:
    """Raise ConfigError unless the weighing is known."""
    if weighing not in WEIGHINGS:
        raise ConfigError(f"{method}: `weighing` should be one of {WEIGHINGS}. Found {weighing!r}.")
