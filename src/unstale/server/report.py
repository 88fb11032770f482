"""What happened in one step of the server, and its line for the run folder."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unstale.updates import Note, Update


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """What happened in one step."""

    version: int
    """The version that the step made."""
    staleness: tuple[int, ...]
    """The staleness of every arrival, in the order of client and base version."""
    notes: tuple[Note, ...]
    """What was done to which update."""
    updates: tuple[Update, ...] = ()
    """The updates that were aggregated, after compensation."""
    changed: bool = False
    """Whether the weights moved; they stay in a round without usable updates."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Updates refused since the step before, by reason."""
    history: Mapping[str, int] = field(default_factory=dict)
    """Earlier versions kept, and the bytes they take in memory."""
    seconds: float = 0.0
    held: int | None = None
    """Accepted updates that are still prepared in the background; None without one."""

    @property
    def arrivals(self) -> int:
        """How many updates took part."""
        return len(self.staleness)

    def count(self, kind: str) -> int:
        """Return how many notes of a kind there are."""
        return sum(note.kind == kind for note in self.notes)

    def to_json(self) -> dict[str, Any]:
        """Return the report's line: counts and numbers, no tensors."""
        late = [s for s in self.staleness if s > 0]
        counts = Counter(self.staleness)
        return {
            "version": self.version,
            "arrivals": self.arrivals,
            "stale": len(late),
            "staleness": {
                "mean": sum(self.staleness) / self.arrivals if self.arrivals else None,
                "max": max(self.staleness, default=None),
                "counts": {str(s): counts[s] for s in sorted(counts)},
            },
            "changed": self.changed,
            "refused": dict(sorted(self.refused.items())),
            "notes": dict(sorted(Counter(note.kind for note in self.notes).items())),
            "conversions": self.count("converted"),
            "iterations": sum(int(n.detail.get("iterations", 0)) for n in self.notes),
            **_told_in_full(self.notes),
            "history": dict(self.history),
            **({} if self.held is None else {"held": self.held}),
            "seconds": self.seconds,
        }


def _told_in_full(notes: Sequence[Note]) -> dict[str, Any]:
    """Return what a count would not tell, by kind; kinds without a note are left out.

    Seconds are not among it: all but a line's own `seconds` is the same in a repeated run.
    """

    def of(kind: str) -> list[Note]:
        return [note for note in notes if note.kind == kind]

    converted = [
        {
            "client": note.client_id,
            "base_version": note.base_version,
            "loss": _short(note.detail.get("loss")),
            "iterations": note.detail.get("iterations", 0),
            "start": note.detail.get("start", "cold"),
            **(
                {"curve": [[at, _short(loss)] for at, loss in note.detail["curve"]]}
                if "curve" in note.detail
                else {}
            ),
        }
        for note in of("converted")
    ]
    fallbacks = [
        {"client": note.client_id, "reason": str(note.detail.get("reason", ""))}
        for note in of("fallback")
    ]
    gamma = {note.client_id: _short(note.detail.get("gamma")) for note in of("switched")}
    measured = [
        {
            "client": note.client_id,
            "version": note.detail.get("version", note.base_version),
            "e1": _short(note.detail.get("estimate_error")),
            "e2": _short(note.detail.get("stale_error")),
        }
        for note in of("measured")
    ]
    told: dict[str, Any] = {
        "converted": converted,
        "fallbacks": fallbacks,
        "gamma": gamma,
        "measured": measured,
    }
    return {kind: found for kind, found in told.items() if found}


def _short(value: float | None) -> float | None:
    """Return a number with the digits that mean something; None for what is no JSON."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")
