"""`WatchedFolder`: looks at a run folder again and again, at what is new only."""

import dataclasses
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from unstale.errors import RunError
from unstale.run_folder import Round, RunFolder
from unstale.run_folder.tail import Tail
from unstale.watch.state import PartState, RunState, Status, seconds_left, silence

# The last rounds whose mean says what one takes.
_RECENT = 10
# Methods and seeds that a config is believed to have.
_MOST_PARTS = 10_000


class WatchedFolder:
    """A run folder that is looked at while somebody else writes it.

    Nothing is written and no lock is taken. The folder need not be there yet.

    Args:
        path: The run folder, of the simulator or of a server on Flower.
        clock: The time in seconds since 1970.

    Example:
        >>> WatchedFolder(Path("runs/nowhere")).look().status
        'waiting'
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._clock = clock
        self._tails: dict[Path, Tail] = {}
        # What was made of the lines of each, by what told whether they have changed.
        self._known: dict[Path, tuple[object, PartState]] = {}

    def look(self) -> RunState:
        """Return the state of the run now."""
        folder = RunFolder(self.path)
        config = _config(folder)
        if config is None:
            self._tails.clear()
            self._known.clear()
            return RunState(self.path, "waiting")
        # First: once the summary is there, so are all lines.
        ended = folder.is_done
        # As long as it tunes, its tries are what goes on.
        tries = folder.tries
        if not ended and tries.is_run and not tries.is_done:
            folder, config = tries, _config(tries) or config
        parts, fault = [], ""
        for label, seed in _parts(config):
            try:
                parts.append(self._part(folder, label, seed, _planned(config)))
            except (RunError, OSError) as error:
                fault = fault or str(error)
                parts.append(PartState(label, seed, 0, _planned(config)))
        return self._state(config, tuple(parts), fault, ended=ended)

    def _part(self, folder: RunFolder, label: str, seed: int, planned: int) -> PartState:
        path = folder.lines_path(label, seed)
        tail = self._tails.setdefault(path, Tail(path))
        tail.read()
        mark, known = self._known.get(path, (None, None))
        if known is None or mark != tail.mark or known.planned != planned:
            known = _state_of(tail, label, seed, planned)
            self._known[path] = (tail.mark, known)
        if tail.changed is None or not known.rounds:
            return known
        return dataclasses.replace(known, age=max(0.0, self._clock() - tail.changed))

    def _state(
        self, config: Mapping[str, Any], parts: tuple[PartState, ...], fault: str, *, ended: bool
    ) -> RunState:
        ages = [part.age for part in parts if part.age is not None]
        age = min(ages, default=None)
        longest = max((part.round_seconds or 0.0 for part in parts), default=0.0)
        status: Status = "running"
        if ended:
            status = "ended"
        elif age is None:
            status = "starting"
        elif age >= silence(longest):
            status = "quiet"
        title = str(config.get("title") or config.get("name") or self.path.name)
        left = seconds_left(parts) if status == "running" else None
        return RunState(self.path, status, title, parts, age, left, fault)


def _config(folder: RunFolder) -> Mapping[str, Any] | None:
    """Return the config; None where there is none yet."""
    try:
        found = json.loads(folder.config_path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _planned(config: Mapping[str, Any]) -> int:
    rounds = config.get("rounds")
    return rounds if type(rounds) is int else 0


def _parts(config: Mapping[str, Any]) -> list[tuple[str, int]]:
    methods = [one for one in _listed(config.get("methods")) if isinstance(one, dict)]
    labels = [str(one.get("label") or one.get("name") or "?") for one in methods]
    # A label is the name of a folder, and no way out of the run's.
    labels = [label for label in labels if label == Path(label).name]
    seeds = [seed for seed in _listed(config.get("seeds")) if type(seed) is int]
    return [(label, seed) for seed in seeds for label in labels][:_MOST_PARTS]


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _last(rounds: list[Round], score: str) -> float | None:
    found = (getattr(one, score) for one in reversed(rounds))
    return next((value for value in found if value is not None), None)


def _state_of(tail: Tail, label: str, seed: int, planned: int) -> PartState:
    rounds = [tail.rounds[number] for number in sorted(tail.rounds)]
    recent = [one.seconds for one in rounds[-_RECENT:]]
    return PartState(
        label,
        seed,
        rounds=rounds[-1].number if rounds else 0,
        planned=planned,
        accuracy=_last(rounds, "accuracy"),
        affected_accuracy=_last(rounds, "affected_accuracy"),
        arrivals=sum(one.arrivals for one in rounds),
        stale=sum(one.stale for one in rounds),
        conversions=sum(one.conversions for one in rounds),
        stand_ins=sum(len(one.stand_ins) for one in rounds),
        refused=sum(sum(one.refused.values()) for one in rounds),
        round_seconds=sum(recent) / len(recent) if recent else None,
    )
