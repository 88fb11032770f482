"""The report of one server step, and the line of the run folder that it fills in."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from unstale.notes import Note, NoteKind
from unstale.run_folder.schema import (
    Calibrated,
    Checked,
    Converted,
    FellBack,
    Measured,
    OtherRecipe,
    Round,
    StoodIn,
)
from unstale.updates import Update


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
    """The updates that were aggregated, after compensation, stand-ins included."""
    changed: bool = False
    """Whether the weights moved; they stay in a round without usable updates."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Updates that `Server.submit` refused since the step before, by reason."""
    history: Mapping[str, int] = field(default_factory=dict)
    """Earlier versions kept, and the bytes they take in memory."""
    seconds: float = 0.0
    """Wall time of the step."""
    awaiting_fit: int | None = None
    """Accepted updates whose background fit is under way; None without a background."""
    absent: tuple[str, ...] = ()
    """Clients that the round drew but that were at work or away, and sent nothing in it."""

    @property
    def arrivals(self) -> int:
        """How many updates of clients took part; stand-ins are not counted."""
        return len(self.staleness)

    def count(self, kind: NoteKind) -> int:
        """Return how many notes of a kind there are."""
        return sum(note.kind == kind for note in self.notes)

    def line(self) -> Round:
        """Return the step's part of the round's line: counts and numbers, no tensors.

        The engine adds what it measured. Seconds of single conversions are left out: all but a
        line's own times is the same in a repeated run.
        """
        counts = Counter(self.staleness)
        gammas = (
            (note.client_id, _short(note.detail.get("gamma"))) for note in self._of("switched")
        )
        # As they were used: a wrapper may have lowered a weight after the note was made.
        weights = {u.client_id: u.weight for u in self.updates if u.stand_in}
        return Round(
            number=self.version,
            version=self.version,
            arrivals=self.arrivals,
            stale=sum(age > 0 for age in self.staleness),
            staleness={age: counts[age] for age in sorted(counts)},
            changed=self.changed,
            refused=dict(sorted(self.refused.items())),
            notes=dict(sorted(Counter(note.kind for note in self.notes).items())),
            conversions=self.count("converted"),
            iterations=sum(int(note.detail.get("iterations", 0)) for note in self.notes),
            converted=tuple(map(_converted, self._of("converted"))),
            fell_back=tuple(
                FellBack(note.client_id, str(note.detail.get("reason", "")))
                for note in self._of("fallback")
            ),
            gamma={client: gamma for client, gamma in gammas if gamma is not None},
            measured=tuple(map(_measured, self._of("measured"))),
            calibrated=tuple(map(_calibrated, self._of("calibrated"))),
            other_recipes=tuple(map(_other_recipe, self._of("other_recipe"))),
            history=dict(self.history),
            awaiting_fit=self.awaiting_fit,
            absent=len(self.absent),
            stand_ins=tuple(_stood_in(note, weights) for note in self._of("stood_in")),
            checked=tuple(map(_checked, self._of("checked"))),
            seconds=self.seconds,
        )

    def _of(self, kind: NoteKind) -> Iterable[Note]:
        """Return the notes of a kind."""
        return (note for note in self.notes if note.kind == kind)

    def to_json(self) -> dict[str, Any]:
        """Return `line()` as JSON values."""
        return self.line().to_json()


def _converted(note: Note) -> Converted:
    detail = note.detail
    return Converted(
        client=note.client_id,
        loss=_short(detail.get("loss")),
        iterations=detail.get("iterations", 0),
        warm=detail.get("start") == "warm",
        points=tuple((at, _short(loss)) for at, loss in detail.get("curve", ())),
        base_version=note.base_version,
        share=_short(detail.get("share")),
        by=detail.get("by", ""),
    )


def _measured(note: Note) -> Measured:
    return Measured(
        client=note.client_id,
        estimate_error=_short(note.detail.get("estimate_error")),
        stale_error=_short(note.detail.get("stale_error")),
        version=note.detail.get("version", note.base_version),
        estimate_l1=_short(note.detail.get("estimate_l1")),
        stale_l1=_short(note.detail.get("stale_l1")),
    )


def _calibrated(note: Note) -> Calibrated:
    detail = note.detail
    return Calibrated(
        client=note.client_id,
        lag=detail.get("lag", 0),
        stale_error=_short(detail.get("stale_error")),
        error=_short(detail.get("error")),
        share=_short(detail.get("share")),
        late=bool(detail.get("late")),
        by=detail.get("by", ""),
    )


def _other_recipe(note: Note) -> OtherRecipe:
    return OtherRecipe(
        note.client_id, str(note.detail.get("found", "?")), _short(note.detail.get("score"))
    )


def _stood_in(note: Note, weights: Mapping[str, float]) -> StoodIn:
    client, detail = note.client_id, note.detail
    weight = weights.get(client, detail.get("weight"))
    scale = _short(detail.get("scale"))
    return StoodIn(client, detail.get("age", 0), _short(weight) or 0.0, scale or 1.0)


def _checked(note: Note) -> Checked:
    detail = note.detail
    return Checked(
        note.client_id,
        detail.get("age", 0),
        _short(detail.get("error")),
        _short(detail.get("share")),
        _short(detail.get("l1")),
    )


def _short(value: float | None) -> float | None:
    """Return a number with five significant digits; None for what is no JSON."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")
