"""What became of stale updates, round by round, under methods that convert."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from unstale.notes import NoteKind
from unstale.report.records import Method, Round, Run
from unstale.report.series import over_rounds

# More columns than this cannot be told apart.
MAX_COLUMNS = 120

# What a note of a kind says became of its update: a key of `FATES`, or None where it says
# nothing of that. Every kind of note has an entry, and a test says so.
FATE_OF: Mapping[NoteKind, str | None] = {
    "converted": "converted",
    "kept": "kept",
    "switched": "switched",
    "fallback": "fallback",
    "dropped": "dropped",
    "weighted": "other",
    "compensated": "other",
    "measured": None,
    "discarded": None,
}


def _noted(fate: str) -> Callable[[Round], int]:
    """Return what counts the notes that tell of a fate."""
    return lambda record: sum(n for kind, n in record.notes.items() if FATE_OF[kind] == fate)


def _switched(record: Round) -> int:
    """Count updates of clients that use nothing of the estimate any more."""
    return sum(gamma == 0 for gamma in record.gamma.values())


def _other(record: Round) -> int:
    return max(0, record.stale - sum(count(record) for _, _, count in _NAMED))


_NAMED: tuple[tuple[str, str, Callable[[Round], int]], ...] = (
    ("converted", "converted", lambda r: r.conversions),
    ("kept", "not unique", _noted("kept")),
    ("switched", "switched back", _switched),
    ("fallback", "fell back", _noted("fallback")),
    ("dropped", "dropped", _noted("dropped")),
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
