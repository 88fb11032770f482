"""What a round's line holds about nodes, where clients are real."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unstale.run_folder.schema.checked import counts, items, mapping


@dataclass(frozen=True, slots=True)
class RefusedReply:
    """One reply that was refused before the server saw it."""

    node: str
    """Who sent it; foreign text."""
    code: str
    """A short name of the reason, as `refused` of a line counts it."""
    reason: str
    """What should hold and what was found; foreign text."""

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a line's `nodes.refused`."""
        return {"node": self.node, "code": self.code, "reason": self.reason}

    @classmethod
    def from_json(cls, value: object) -> "RefusedReply":
        """Return the entry that `to_json` wrote.

        Raises:
            DamageError: If it is no object.
        """
        fields = mapping(value, "A refusal")
        return cls(
            str(fields.get("node", "?")),
            str(fields.get("code") or ""),
            str(fields.get("reason") or ""),
        )


@dataclass(frozen=True, slots=True)
class Nodes:
    """Who did what in one round; all names are foreign text."""

    answered: tuple[str, ...] = ()
    """Whose replies came, late ones included."""
    late: Mapping[str, int] = field(default_factory=dict)
    """Whose reply belonged to an earlier round, and by how many rounds."""
    working: Mapping[str, int] = field(default_factory=dict)
    """Who had not answered yet, and since how many rounds."""
    refusals: tuple[RefusedReply, ...] = ()
    """Replies that were refused, the first ones where there were many."""

    @property
    def refused(self) -> Mapping[str, int]:
        """How many replies of whom were refused."""
        return Counter(one.node for one in self.refusals)

    def to_json(self) -> dict[str, Any]:
        """Return a line's `nodes`."""
        return {
            "answered": list(self.answered),
            "late": dict(self.late),
            "working": dict(self.working),
            "refused": [one.to_json() for one in self.refusals],
        }

    @classmethod
    def from_json(cls, value: object) -> "Nodes":
        """Return what `to_json` wrote.

        Raises:
            DamageError: If a value is of the wrong kind.
        """
        fields = mapping(value, "nodes")
        return cls(
            tuple(str(node) for node in items(fields.get("answered"), "answered")),
            counts(fields.get("late"), "late"),
            counts(fields.get("working"), "working"),
            tuple(map(RefusedReply.from_json, items(fields.get("refused"), "refused"))),
        )
