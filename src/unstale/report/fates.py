"""What became of stale updates, round by round, under methods that convert."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from unstale.report.records import Method, Round, Run
from unstale.report.series import over_rounds

# More columns than this cannot be told apart.
MAX_COLUMNS = 120


def _switched(record: Round) -> int:
    """Count updates of clients that use nothing of the estimate any more."""
    return sum(gamma == 0 for gamma in record.gamma.values())


def _other(record: Round) -> int:
    return max(0, record.stale - sum(count(record) for _, _, count in _NAMED))


_NAMED: tuple[tuple[str, str, Callable[[Round], int]], ...] = (
    ("converted", "converted", lambda r: r.conversions),
    ("kept", "not unique", lambda r: r.notes.get("kept", 0)),
    ("switched", "switched back", _switched),
    ("fallback", "fell back", lambda r: r.notes.get("fallback", 0)),
    ("dropped", "dropped", lambda r: r.notes.get("dropped", 0)),
)
# Key, name and count: from the bottom of a column to its top.
FATES = (*_NAMED, ("other", "otherwise", _other))


@dataclass(frozen=True, slots=True)
class Fates:
    """One method's columns; the values of each fate are as long as `x`."""

    label: str
    """The method."""
    x: tuple[int, ...]
    """The last round of each column."""
    values: dict[str, tuple[float, ...]]
    """Updates a round by the key of their fate, mean over seeds; what never happened is absent."""


def converting(run: Run) -> list[Method]:
    """Return the methods that converted anything, or were to."""
    return [
        method
        for method in run.methods
        if any(
            record.conversions or (method.name == "convert" and record.stale)
            for rounds in run.rounds.get(method.label, {}).values()
            for record in rounds
        )
    ]


def fates_of(run: Run, label: str) -> Fates:
    """Return what became of a method's stale updates."""
    by_seed = run.rounds.get(label, {})
    lines = {key: over_rounds(by_seed, count, MAX_COLUMNS) for key, _, count in FATES}
    return Fates(
        label,
        lines["converted"].x,
        {key: line.mean for key, line in lines.items() if any(line.mean)},
    )


def reasons(run: Run, label: str) -> Counter[str]:
    """Count why a method's updates fell back, over all seeds; numbers in a reason are left out."""
    return Counter(
        re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "…", why)
        for rounds in run.rounds.get(label, {}).values()
        for record in rounds
        for why in record.fallbacks
    )
