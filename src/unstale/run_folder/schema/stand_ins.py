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
    scale: float = 1.0
    """The factor by which it was scaled up, because earlier ones had proved too small."""

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a line's `stand_ins`."""
        return {
            "client": self.client,
            "age": self.age,
            "weight": self.weight,
            **({} if self.scale == 1 else {"scale": self.scale}),
        }

    @classmethod
    def from_json(cls, value: object) -> "StoodIn":
        """Return the entry that `to_json` wrote.

        Raises:
            DamageError: If a value is of the wrong kind.
        """
        fields = mapping(value, "A stand-in")
        weight = number(fields.get("weight"), "weight")
        scale = number(fields.get("scale"), "scale")
        for name, found in (("weight", weight), ("scale", scale)):
            if found is not None and found < 0:
                raise DamageError(f"{name} should be at least 0. Found {found!r}.")
        return cls(
            client=str(fields.get("client", "?")),
            age=count(fields.get("age"), "age"),
            weight=1.0 if weight is None else weight,
            scale=1.0 if scale is None else scale,
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
    """The factor on the stand-in that brings it nearest to the own update; at most 1 in lines that
    were written before stand-ins were scaled up."""
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
