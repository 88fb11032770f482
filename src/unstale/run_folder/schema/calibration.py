"""What a round's line holds about comparisons that tell how far estimates can be trusted."""

from dataclasses import dataclass
from typing import Any

from unstale.run_folder.schema.checked import DamageError, count, mapping, number


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What a conversion made of a client's earlier update, compared with its true one."""

    client: str
    """Whose; foreign text."""
    lag: int
    """Versions between the two updates."""
    stale_error: float | None
    """Cosine distance between the earlier update and the true one."""
    error: float | None
    """Cosine distance between the estimate and the true one."""
    share: float | None
    """The share of the estimate, from 0 to 1, that comes nearest to the true direction."""
    late: bool = False
    """Whether the client is a slow one, whose truth came late; else it is a probe."""
    by: str = ""
    """The candidate that the surrogate was fitted by; empty for the settings as they are."""

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a line's `calibrated`."""
        return {
            "client": self.client,
            "lag": self.lag,
            "stale_error": self.stale_error,
            "error": self.error,
            "share": self.share,
            "late": self.late,
            **({"by": self.by} if self.by else {}),
        }

    @classmethod
    def from_json(cls, value: object) -> "Calibrated":
        """Return the entry that `to_json` wrote.

        Raises:
            DamageError: If a value is of the wrong kind.
        """
        fields = mapping(value, "A calibration")
        late = fields.get("late")
        if late is not None and not isinstance(late, bool):
            raise DamageError(f"late should be true or false. Found {late!r:.60}.")
        return cls(
            client=str(fields.get("client", "?")),
            lag=count(fields.get("lag"), "lag"),
            stale_error=number(fields.get("stale_error"), "stale_error"),
            error=number(fields.get("error"), "error"),
            share=number(fields.get("share"), "share"),
            late=bool(late),
            by=str(fields.get("by", "")),
        )
