"""Who works on which version, and who has answered already."""

import bisect
from collections.abc import Iterable
from typing import Any

# Separate stretches of answered versions remembered per client. A client that answers
# every round needs one; one that answers now and then needs one per answer.
MAX_STRETCHES = 1024


class Answered:
    """The versions that one client has answered, as stretches, in bounded memory.

    Beyond `MAX_STRETCHES` the oldest stretches melt into a floor: below it every
    version counts as answered, so that an old update can never be counted twice.

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
        """Return whether that very version is known to be answered, not only below the floor."""
        at = bisect.bisect_right(self.stretches, version, key=lambda s: s[0]) - 1
        return at >= 0 and version <= self.stretches[at][1]

    def add(self, version: int) -> None:
        """Note that a version was answered."""
        if version in self:
            return
        at = bisect.bisect_right(self.stretches, version, key=lambda s: s[0])
        self.stretches.insert(at, [version, version])
        for left in (at, at - 1):  # join with the right neighbour, then with the left one
            if 0 <= left < len(self.stretches) - 1:
                a, b = self.stretches[left], self.stretches[left + 1]
                if a[1] + 1 == b[0]:
                    self.stretches[left : left + 2] = [[a[0], b[1]]]
        while len(self.stretches) > MAX_STRETCHES:
            self.floor = self.stretches.pop(0)[1]


class Tickets:
    """Open tickets (client × version), and the versions each client has answered."""

    def __init__(self) -> None:
        self._open: dict[str, set[int]] = {}
        self._answered: dict[str, Answered] = {}
        self.ever_used = False

    def open(self, client_id: str, version: int) -> None:
        """Note that a client has checked out a version (again, after answering: no new ticket)."""
        self.ever_used = True
        if not self.has_answered(client_id, version):
            self._open.setdefault(client_id, set()).add(version)

    def is_open(self, client_id: str, version: int) -> bool:
        """Return whether the client works on that version."""
        return version in self._open.get(client_id, ())

    def release(self, client_id: str, version: int | None = None) -> None:
        """Close a client's ticket on a version, or all of its tickets."""
        versions = self._open.get(client_id, set())
        if version is None:
            versions.clear()
        versions.discard(version if version is not None else -1)
        if not versions:
            self._open.pop(client_id, None)

    def answer(self, client_id: str, version: int) -> None:
        """Note an accepted update: its ticket closes, and a second one is a repetition."""
        self.release(client_id, version)
        self._answered.setdefault(client_id, Answered()).add(version)

    def has_answered(self, client_id: str, version: int) -> bool:
        """Return whether an update for that version counts as a repetition.

        Below the floor of `Answered` an open ticket proves that it is none.
        """
        answered = self._answered.get(client_id, Answered())
        if self.is_open(client_id, version):
            return answered.remembers(version)
        return version in answered

    def outstanding(self) -> set[int]:
        """Return all versions on which somebody works."""
        return set().union(*self._open.values()) if self._open else set()

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
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
        """Return the tickets that `to_json` wrote."""
        tickets = cls()
        tickets.ever_used = value["ever_used"]
        tickets._open = {c: set(v) for c, v in value["open"].items()}
        tickets._answered = {
            c: Answered(a["stretches"], a["floor"]) for c, a in value["answered"].items()
        }
        return tickets
