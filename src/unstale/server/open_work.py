"""Which client works on which version, and which versions it has answered."""

import bisect
from collections.abc import Iterable
from typing import Any

# Maximum number of separate ranges of answered versions per client. A client that answers every
# version needs one range; one that answers now and then needs one per answer.
MAX_STRETCHES = 1024


class Answered:
    """The versions that one client has answered, as ranges (`stretches`) in bounded memory.

    Beyond `MAX_STRETCHES` the oldest ranges are replaced by a floor. Every version up to the
    floor counts as answered, so an old update can never be accepted twice.

    Example:
        >>> seen = Answered()
        >>> for version in (1, 2, 3, 7): seen.add(version)
        >>> 2 in seen, 5 in seen, seen.stretches
        (True, False, [[1, 3], [7, 7]])
    """

    def __init__(self, stretches: Iterable[Iterable[int]] = (), floor: int = -1) -> None:
        self.stretches: list[list[int]] = [list(stretch) for stretch in stretches]
        self.floor = floor

    def __contains__(self, version: int) -> bool:
        return version <= self.floor or self.remembers(version)

    def remembers(self, version: int) -> bool:
        """Return whether the version is in a range, and not only below the floor."""
        at = bisect.bisect_right(self.stretches, version, key=lambda s: s[0]) - 1
        return at >= 0 and version <= self.stretches[at][1]

    def add(self, version: int) -> None:
        """Record that a version was answered."""
        if version in self:
            return
        at = bisect.bisect_right(self.stretches, version, key=lambda s: s[0])
        self.stretches.insert(at, [version, version])
        for left in (at, at - 1):  # join with the right neighbour, then the left one
            if 0 <= left < len(self.stretches) - 1:
                a, b = self.stretches[left], self.stretches[left + 1]
                if a[1] + 1 == b[0]:
                    self.stretches[left : left + 2] = [[a[0], b[1]]]
        while len(self.stretches) > MAX_STRETCHES:
            self.floor = self.stretches.pop(0)[1]


class Tickets:
    """The server's book of open work.

    A ticket is a pair of client and version that the client has checked out and not yet
    answered. Answered versions are recorded too, to refuse repeated updates.
    """

    def __init__(self) -> None:
        self._open: dict[str, set[int]] = {}
        self._answered: dict[str, Answered] = {}
        self.ever_used = False

    def open(self, client_id: str, version: int) -> None:
        """Open a ticket: a client checks out a version. No ticket if it has answered already."""
        self.ever_used = True
        if not self.has_answered(client_id, version):
            self._open.setdefault(client_id, set()).add(version)

    def is_open(self, client_id: str, version: int) -> bool:
        """Return whether the client has checked out the version and not yet answered."""
        return version in self._open.get(client_id, ())

    def release(self, client_id: str, version: int | None = None) -> None:
        """Close a client's ticket for a version, or all of its tickets if None."""
        versions = self._open.get(client_id, set())
        if version is None:
            versions.clear()
        versions.discard(version if version is not None else -1)
        if not versions:
            self._open.pop(client_id, None)

    def answer(self, client_id: str, version: int) -> None:
        """Record an accepted update and close its ticket; a second one counts as repeated."""
        self.release(client_id, version)
        self._answered.setdefault(client_id, Answered()).add(version)

    def has_answered(self, client_id: str, version: int) -> bool:
        """Return whether another update from that version counts as repeated.

        An open ticket overrides the floor of `Answered`: the client has not answered yet.
        """
        answered = self._answered.get(client_id, Answered())
        if self.is_open(client_id, version):
            return answered.remembers(version)
        return version in answered

    def outstanding(self) -> set[int]:
        """Return all versions with an open ticket."""
        return set().union(*self._open.values()) if self._open else set()

    def at_work_on(self, version: int) -> set[str]:
        """Return the clients that have checked out a version and not yet answered."""
        return {client for client, versions in self._open.items() if version in versions}

    def oldest(self) -> dict[str, int]:
        """Return the oldest version that each client at work has checked out."""
        return {client: min(versions) for client, versions in self._open.items()}

    def to_json(self) -> dict[str, Any]:
        """Return all tickets and answers as JSON values."""
        return {
            "ever_used": self.ever_used,
            "open": {c: sorted(v) for c, v in sorted(self._open.items())},
            "answered": {
                c: {"floor": a.floor, "stretches": a.stretches}
                for c, a in sorted(self._answered.items())
            },
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Tickets":
        """Return the tickets from the result of `to_json`."""
        tickets = cls()
        tickets.ever_used = value["ever_used"]
        tickets._open = {c: set(v) for c, v in value["open"].items()}
        tickets._answered = {
            c: Answered(a["stretches"], a["floor"]) for c, a in value["answered"].items()
        }
        return tickets
