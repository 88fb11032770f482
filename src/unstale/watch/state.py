"""How far a run is, as data: what the terminal, the page and programs are shown."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Status = Literal["waiting", "starting", "running", "quiet", "ended"]
"""`waiting`: there is no run in the folder yet. `starting`: there is one, without any round.
`quiet`: nothing has come for much longer than a round takes. `ended`: its summary is there."""

# Seconds without a line after which a run is quiet, at least, and as a multiple of its rounds.
QUIET_SECONDS, QUIET_ROUNDS = 60.0, 10.0


@dataclass(frozen=True, slots=True)
class PartState:
    """How far one method with one seed is."""

    label: str
    """The method."""
    seed: int
    """The seed."""
    rounds: int
    """Rounds that are done."""
    planned: int
    """Rounds that there are to be; 0 if that is open."""
    accuracy: float | None = None
    """Test accuracy, when it was last measured."""
    affected_accuracy: float | None = None
    """The same in the affected classes."""
    arrivals: int = 0
    """Updates that took part, in all rounds."""
    stale: int = 0
    """Those of them that were stale."""
    conversions: int = 0
    """Stale updates that were converted."""
    stand_ins: int = 0
    """Updates that the server made for absent clients."""
    refused: int = 0
    """Updates that were refused."""
    round_seconds: float | None = None
    """What a round takes, as a mean of the last ones; None before the first."""
    age: float | None = None
    """Seconds since its last line was written; None before the first."""

    @property
    def is_done(self) -> bool:
        """Whether all of its rounds are done."""
        return 0 < self.planned <= self.rounds

    @property
    def is_at_work(self) -> bool:
        """Whether it has begun, is not done, and has not been silent for long."""
        return not self.is_done and self.age is not None and self.age < silence(self.round_seconds)


@dataclass(frozen=True, slots=True)
class RunState:
    """How far a run is."""

    folder: Path
    """The run folder."""
    status: Status
    """What it does."""
    title: str = ""
    """What is run; foreign text."""
    parts: tuple[PartState, ...] = ()
    """Every method with every seed, in the order in which they run."""
    age: float | None = None
    """Seconds since the last line was written; None before the first."""
    seconds_left: float | None = None
    """An estimate of the time that it still takes; None where nothing can be said."""
    fault: str = ""
    """What cannot be read; empty if all can be."""

    @property
    def rounds(self) -> int:
        """Rounds that are done, of all methods and seeds."""
        return sum(min(part.rounds, part.planned or part.rounds) for part in self.parts)

    @property
    def planned(self) -> int:
        """Rounds that there are to be, of all methods and seeds; 0 if that is open."""
        open_end = any(not part.planned for part in self.parts)
        return 0 if open_end else sum(part.planned for part in self.parts)

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON values, for programs."""
        return {
            "run": str(self.folder),
            "status": self.status,
            "title": self.title,
            "rounds": self.rounds,
            "planned": self.planned,
            "age": _rounded(self.age),
            "seconds_left": _rounded(self.seconds_left),
            **({"fault": self.fault} if self.fault else {}),
            "parts": [
                {
                    **dataclasses.asdict(part),
                    "age": _rounded(part.age),
                    "round_seconds": None if part.round_seconds is None else part.round_seconds,
                }
                for part in self.parts
            ],
        }


def silence(round_seconds: float | None) -> float:
    """Return the seconds without a line after which a run is quiet.

    Example:
        >>> silence(0.2), silence(30)
        (60.0, 300.0)
    """
    return max(QUIET_SECONDS, QUIET_ROUNDS * (round_seconds or 0.0))


def seconds_left(parts: Iterable[PartState]) -> float | None:
    """Return an estimate of the seconds that parts still take, from what their rounds took.

    A part without rounds takes as long as other seeds of its method, or as all parts. Parts that
    run side by side share the time.

    Example:
        >>> done = PartState("a", 0, rounds=10, planned=10, round_seconds=2.0, age=0.0)
        >>> half = PartState("b", 0, rounds=5, planned=10, round_seconds=4.0, age=0.0)
        >>> seconds_left([done, half, PartState("b", 1, rounds=0, planned=10)])
        60.0
    """
    every = list(parts)
    known = [part for part in every if part.round_seconds is not None]
    if not known or any(not part.planned for part in every):
        return None

    def each(part: PartState) -> float:
        if part.round_seconds is not None:
            return part.round_seconds
        alike = [one for one in known if one.label == part.label] or known
        return sum(one.round_seconds or 0.0 for one in alike) / len(alike)

    left = sum(max(0, part.planned - part.rounds) * each(part) for part in every)
    return left / max(1, sum(part.is_at_work for part in every))


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
