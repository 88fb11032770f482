"""What a round's line holds about clients that train by another recipe than the server assumes."""

from dataclasses import dataclass
from typing import Any

from unstale.run_folder.schema.checked import mapping, number

LOOKS_LIKE = {
    "slower": "training that goes about a third as far (a smaller learning rate, fewer steps or "
    "less momentum)",
    "faster": "training that goes about three times as far (a larger learning rate, more steps or "
    "more momentum)",
    "adam": "training with Adam instead of SGD",
    "sgd": "training with SGD instead of Adam",
}
"""What a client's updates look like, by the name of the recipe that explains them best."""


@dataclass(frozen=True, slots=True)
class OtherRecipe:
    """A client whose updates another recipe explains better.

    Example:
        >>> print(OtherRecipe("c7", "adam", 1.5).says)
        A client should train by the server's recipe (LocalSpec, [local] in an experiment). \
Updates of c7 look like training with Adam instead of SGD (score 1.50). \
Conversions of such clients are wrong: correct the server's recipe, or the client's.
    """

    client: str
    """Whose; foreign text."""
    found: str
    """The recipe that explains it best: `slower`, `faster`, `adam` or `sgd`."""
    score: float | None
    """By how much, as a logarithm; 0 would be equally well."""

    @property
    def says(self) -> str:
        """What should hold, what was found, and what to do."""
        # Foreign text, for a log: on one line and of bounded length.
        name = "".join(char if char.isprintable() else " " for char in self.client[:80])
        score = "" if self.score is None else f" (score {self.score:.2f})"
        return (
            "A client should train by the server's recipe (LocalSpec, [local] in an experiment). "
            f"Updates of {name} look like {LOOKS_LIKE.get(self.found, 'another recipe')}"
            f"{score}. Conversions of such clients are wrong: correct the "
            "server's recipe, or the client's."
        )

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a line's `other_recipes`."""
        return {"client": self.client, "found": self.found, "score": self.score}

    @classmethod
    def from_json(cls, value: object) -> "OtherRecipe":
        """Return the entry that `to_json` wrote.

        Raises:
            DamageError: If a value is of the wrong kind.
        """
        fields = mapping(value, "An entry of other_recipes")
        return cls(
            client=str(fields.get("client", "?")),
            found=str(fields.get("found", "?")),
            score=number(fields.get("score"), "score"),
        )
