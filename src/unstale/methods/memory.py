r"""The method `memory`: an absent client's last update is used again.

With the latest update $G_i$ of every client i, MIFA changes the weights in every round by
the mean of all of them, whether they are new or not:

$$ w_{t+1} = w_t + \frac{1}{N} \sum_{i=1}^{N} G_i $$

Here the mean is that of the aggregator, over the clients that the round drew: with all
clients in every round, equally many examples and FedAvg it is the formula above. A client
counts from its first answer on; MIFA itself waits for one answer of each.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unstale.errors import ConfigError
from unstale.updates import Note, Outcome, ServerView, State, Update


@dataclass(frozen=True, slots=True)
class Memory:
    """Uses an absent client's last update again, as it was.

    Memory: one update of the model's size for each of at most `max_clients` clients.

    Example:
        >>> Memory(max_age=100).lookback
        0

    References:
        Gu et al., "Fast Federated Learning in the Presence of Arbitrary Device Unavailability"
        (MIFA), 2021.
    """

    max_age: int | None = None
    """Maximum age of an update that is used again: versions since the one it was trained from.
    No limit if not given, as in MIFA."""
    max_clients: int = 1000
    """Maximum number of clients whose last update is kept: those that answered last."""

    def __post_init__(self) -> None:
        given = {"max_clients": self.max_clients}
        if self.max_age is not None:
            given["max_age"] = self.max_age
        for name, value in given.items():
            if type(value) is not int or value < 1:
                raise ConfigError(
                    f"memory: `{name}` should be a positive integer. Found {value!r}."
                )

    @property
    def lookback(self) -> int:
        """No earlier version is read."""
        return 0

    def init(self) -> State:
        """Return the state without any client."""
        return {"clients": {}}

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Return all updates as they came, and the last one of each absent client."""
        clients: dict[str, Mapping[str, Any]] = dict(state["clients"])
        for update in sorted(updates, key=lambda u: u.key):
            if update.stand_in:  # made by another part of a chain
                continue
            if update.base_version >= clients.get(update.client_id, {}).get("version", -1):
                clients[update.client_id] = {
                    "version": update.base_version,
                    "seen": view.version,
                    "num_examples": update.num_examples,
                    "delta": dict(update.delta),
                }
        known = self.stands_in_for({"clients": clients}, view.version)
        again = [client for client in view.absent if client in known]
        return Outcome(
            (*updates, *(_again(client, clients[client], view) for client in again)),
            {"clients": _latest(clients, self.max_clients)},
            tuple(_note(client, clients[client], view) for client in again),
        )

    def stands_in_for(self, state: State, version: int) -> frozenset[str]:
        """Return the clients whose last update is kept and not too old."""
        oldest = -math.inf if self.max_age is None else version - self.max_age
        found = (c for c, entry in state["clients"].items() if entry["version"] >= oldest)
        return frozenset(found)


def _again(client: str, entry: Mapping[str, Any], view: ServerView) -> Update:
    return Update(client, view.version, entry["delta"], entry["num_examples"], stand_in=True)


def _note(client: str, entry: Mapping[str, Any], view: ServerView) -> Note:
    age = view.version - entry["version"]
    return Note("stood_in", client, view.version, {"age": age, "weight": 1.0})


def _latest(clients: Mapping[str, Mapping[str, Any]], most: int) -> dict[str, Mapping[str, Any]]:
    """Return the entries of the `most` clients that answered last, sorted by name."""
    order = sorted(clients, key=lambda name: (-clients[name]["seen"], name))
    return {name: clients[name] for name in sorted(order[:most])}
