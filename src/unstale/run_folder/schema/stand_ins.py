"""What a round's line holds about updates that the server made in place of absent clients."""

from dataclasses import dataclass
from typing import Any

from unstale.run_folder.schema.checked import DamageError, count, mapping, number


@dataclass(frozen=True, slots=True)
class StoodIn:
    """One absent client that was stood in for."""

    client: str
    """Whom the update stands for; foreign text."""
    age: int
    """Versions since the one that the client's newest known update was trained from."""
    weight: float = 1.0
    """Its weight in the aggregation, as a share of the weight of the client's own update."""

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a line's `stand_ins`."""
        return {"client": self.client, "age": self.age, "weight": self.weight}

    @classmethod
    def from_json(cls, value: object) -> "StoodIn":
        """Return the entry that `to_json` wrote.

        Raises:
            DamageError: If a value is of the wrong kind.
        """
        fields = mapping(value, "A stand-in")
        weight = number(fields.get("weight"), "weight")
        if weight is not None and weight < 0:
            raise DamageError(f"weight should be at least 0. Found {weight!r}.")
        return cls(
            client=str(fields.get("client", "?")),
            age=count(fields.get("age"), "age"),
            weight=1.0 if weight is None else weight,
        )


@dataclass(frozen=True, slots=True)
class Checked:
    """What had stood in for a client, compared with the client's own update that came later."""

    client: str
    """Whose; foreign text."""
    age: int
    """The age that was checked: versions between the update that was known and the new one."""
    error: float | None
    """Cosine distance between stand-in and own update, both from the same version."""
    share: float | None
    """The factor on the stand-in, from 0 to 1, that brings it nearest to the own update."""
    l1: float | None = None
    """Relative L1 error of the stand-in; None in lines that were written before it was measured."""

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a line's `checked`."""
        return {
            "client": self.client,
            "age": self.age,
            "error": self.error,
            **({} if self.l1 is None else {"l1": self.l1}),
            "share": self.share,
        }

    @classmethod
    def from_json(cls, value: object) -> "Checked":
        """Return the entry that `to_json` wrote.

        Raises:
            DamageError: If a value is of the wrong kind.
        """
        fields = mapping(value, "A check")
        return cls(
            client=str(fields.get("client", "?")),
            age=count(fields.get("age"), "age"),
            error=number(fields.get("error"), "error"),
            share=number(fields.get("share"), "share"),
            l1=number(fields.get("l1"), "l1"),
        )
