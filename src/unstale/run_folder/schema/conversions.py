"""What a round's line holds about single stale updates under methods that convert."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unstale.run_folder.schema.checked import DamageError, count, items, mapping, number


@dataclass(frozen=True, slots=True)
class Converted:
    """One stale update that was converted."""

    client: str
    """Who sent it; foreign text."""
    loss: float | None
    """The loss that the fit reached; None where it is not finite."""
    iterations: int
    """How many iterations the fit took."""
    warm: bool
    """Whether it began with the surrogate of the client's last conversion."""
    points: tuple[tuple[int, float | None], ...] = ()
    """Some iterations, each with its loss (None where not finite); only some conversions
    have them."""
    base_version: int = 0
    """The version that the update was trained from."""
    share: float | None = None
    """The share of the estimate in the direction of what was used, from 0 (the stale update's) to
    1; None where the estimate was used as it is."""
    by: str = ""
    """The candidate that the surrogate was fitted by; empty for the settings as they are."""

    @property
    def curve(self) -> tuple[tuple[int, float], ...]:
        """The points that can be drawn: finite losses, in the order of iterations from 1."""
        found = [(at, loss) for at, loss in self.points if at > 0 and loss is not None]
        return tuple(sorted(found))

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a line's `converted`."""
        curve = {"curve": [[at, loss] for at, loss in self.points]} if self.points else {}
        return {
            "client": self.client,
            "base_version": self.base_version,
            "loss": self.loss,
            "iterations": self.iterations,
            "start": "warm" if self.warm else "cold",
            **({} if self.share is None else {"share": self.share}),
            **({"by": self.by} if self.by else {}),
            **curve,
        }

    @classmethod
    def from_json(cls, value: object) -> "Converted":
        """Return the entry that `to_json` wrote.

        Raises:
            DamageError: If a value is of the wrong kind.
        """
        fields = mapping(value, "A conversion")
        return cls(
            client=str(fields.get("client", "?")),
            loss=number(fields.get("loss"), "loss"),
            iterations=count(fields.get("iterations"), "iterations"),
            warm=fields.get("start") == "warm",
            points=tuple(map(_point, items(fields.get("curve"), "curve"))),
            base_version=count(fields.get("base_version"), "base_version"),
            share=number(fields.get("share"), "share"),
            by=str(fields.get("by", "")),
        )


def _point(value: object) -> tuple[int, float | None]:
    pair = items(value, "A point of a curve")
    if len(pair) != 2:
        raise DamageError(f"A point of a curve should be a pair. Found {pair!r:.60}.")
    return count(pair[0], "An iteration"), number(pair[1], "A loss")


@dataclass(frozen=True, slots=True)
class FellBack:
    """One stale update that could not be compensated."""

    client: str
    """Who sent it; foreign text."""
    reason: str
    """Why; foreign text."""

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a line's `fallbacks`."""
        return {"client": self.client, "reason": self.reason}

    @classmethod
    def from_json(cls, value: object) -> "FellBack":
        """Return the entry that `to_json` wrote.

        Raises:
            DamageError: If it is no object.
        """
        fields = mapping(value, "A fallback")
        return cls(str(fields.get("client", "?")), str(fields.get("reason") or ""))


@dataclass(frozen=True, slots=True)
class Measured:
    """An earlier estimate, compared with the client's own update that came later."""

    client: str
    """Whose; foreign text."""
    estimate_error: float | None
    """e₁, how far the estimate was from it, by `switching.disparity`."""
    stale_error: float | None
    """e₂, how far the stale update was that was at hand then."""
    version: int = 0
    """The version that the estimate was made for."""
    estimate_l1: float | None = None
    """Relative L1 error of the estimate; None in lines written before it was measured."""
    stale_l1: float | None = None
    """The same of the stale update."""

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a line's `measured`."""
        l1 = {"e1_l1": self.estimate_l1, "e2_l1": self.stale_l1}
        return {
            "client": self.client,
            "version": self.version,
            "e1": self.estimate_error,
            "e2": self.stale_error,
            **{key: value for key, value in l1.items() if value is not None},
        }

    @classmethod
    def from_json(cls, value: object) -> "Measured":
        """Return the entry that `to_json` wrote.

        Raises:
            DamageError: If a value is of the wrong kind.
        """
        fields = mapping(value, "A measurement")
        return cls(
            client=str(fields.get("client", "?")),
            estimate_error=number(fields.get("e1"), "e1"),
            stale_error=number(fields.get("e2"), "e2"),
            version=count(fields.get("version"), "version"),
            estimate_l1=number(fields.get("e1_l1"), "e1_l1"),
            stale_l1=number(fields.get("e2_l1"), "e2_l1"),
        )


def shares(value: object) -> Mapping[str, float]:
    """Return a line's `gamma`: the share of the estimate by client.

    Raises:
        DamageError: If a share is no number.
    """
    found = {client: number(g, "gamma") for client, g in mapping(value, "gamma").items()}
    return {client: gamma for client, gamma in found.items() if gamma is not None}
