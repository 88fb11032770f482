"""What became of stale updates, round by round, under methods that convert."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from unstale.report.figures.series import over_rounds
from unstale.report.records import Method, Round, Run

# More columns than this cannot be told apart.
MAX_COLUMNS = 120


def _switched(record: Round) -> int:
    """Count updates of clients of whose estimates nothing is used any more."""
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


@dataclass(frozen=True, slots=True)
class FateChart:
    """Columns over rounds, as high as stale updates came, divided by what became of them."""

    last_round: int
    """Where the axis of rounds ends."""
    several_seeds: bool
    """Whether values are means over seeds."""
    methods: tuple[Fates, ...]
    """One set of columns for each method that converts; at least one."""

    key = "conversions"
    title = "Conversions per round"
    desc = (
        "Rounds from left to right; a column for each, as high as stale updates came, "
        "divided by what became of them."
    )

    @property
    def fates(self) -> list[tuple[str, str]]:
        """Key and name of every fate that happened under any method, bottom first."""
        return [(key, name) for key, name, _ in FATES if any(key in m.values for m in self.methods)]


def fate_chart(run: Run) -> FateChart | None:
    """Return the fates of stale updates; None where no method converts."""
    found = tuple(f for m in converting(run) if (f := fates_of(run, m.label)).values)
    return FateChart(run.last_round, len(run.seeds) > 1, found) if found else None


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
