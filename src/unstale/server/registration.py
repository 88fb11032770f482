"""Registered clients: who there is, and how late each one's updates come.

An engine registers the clients that it knows of, whether they have answered yet or not, and
says how late they are if it has measured that. Of the others the server finds out from what
it sees: the staleness of a client's last update, and since when it has been at work. Methods
read the result as `ServerView.clients`; tiers are made of it.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from unstale.errors import ConfigError
from unstale.server.checks import is_client_id, shown
from unstale.updates import Update


class Registration:
    """The clients of a server, in the order in which they were registered.

    Example:
        >>> clients = Registration()
        >>> clients.register("phone", None)
        >>> clients.register("sensor", 40)
        >>> clients.latencies(version=7, at_work={"phone": 5})
        {'phone': 2.0, 'sensor': 40.0}
    """

    def __init__(self) -> None:
        self._told: dict[str, float | None] = {}  # what engines have said of each client
        self._seen: dict[str, int] = {}  # the staleness of a client's last update

    def register(self, client_id: str, latency: float | None) -> None:
        """Add a client; its latency, if given, replaces what was known.

        Raises:
            ConfigError: If the id or the latency is not usable.
        """
        if not is_client_id(client_id):
            raise ConfigError(
                "`client_id` should be a non-empty string of valid Unicode. "
                f"Found {shown(client_id)}."
            )
        if latency is not None and not (latency >= 0 and math.isfinite(latency)):
            raise ConfigError(
                "`latency` should be a number of versions of at least 0, or None if it is not "
                f"known. Found {latency!r}."
            )
        if latency is not None or client_id not in self._told:
            self._told[client_id] = None if latency is None else float(latency)

    def observe(self, arrivals: Iterable[Update], version: int) -> None:
        """Note how stale the updates of a step were; their clients count as registered.

        Without any registration nothing is noted: who has answered is not all there is.
        """
        if not self._told:
            return
        # The newest of several updates of a client is the one that counts.
        for update in sorted(arrivals, key=lambda update: update.base_version):
            self._told.setdefault(update.client_id, None)
            self._seen[update.client_id] = update.staleness(version)

    def latencies(self, version: int, at_work: Mapping[str, int]) -> dict[str, float]:
        """Return every client with its latency in versions; 0 if nothing late was seen of it.

        Args:
            version: The current version.
            at_work: The oldest version that each client works on.
        """
        return {
            client: float(max(self._seen.get(client, 0), version - at_work.get(client, version)))
            if told is None
            else told
            for client, told in self._told.items()
        }

    def to_json(self) -> dict[str, Any]:
        """Return all clients as JSON values."""
        return {"told": dict(self._told), "seen": dict(self._seen)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Registration":
        """Return the clients from the result of `to_json`."""
        found = cls()
        found._told, found._seen = dict(value["told"]), dict(value["seen"])
        return found
