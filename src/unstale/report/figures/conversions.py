"""Conversions: what became of stale updates round by round, and how the fits went."""

import bisect
import re
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from unstale.notes import NoteKind
from unstale.report.figures.lines import Axis, Line, LineChart, drawable, rounds_axis
from unstale.report.figures.series import BySeed, Series, over_rounds
from unstale.report.records import Method, Round, Run
from unstale.run_folder.schema import Converted

# More columns than this cannot be told apart.
MAX_COLUMNS = 120
# Points on a loss curve; they are dense at the start, where the loss falls.
POINTS = 28

Curve = Sequence[tuple[int, float]]

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
    "stood_in": None,
    "checked": None,
    "probed": None,
    "calibrated": None,
    "other_recipe": None,
    "bounded": None,
    "left_out": None,
    "discarded": None,
}


def _noted(fate: str) -> Callable[[Round], int]:
    """Return a function that counts the notes of a fate in a round."""
    return lambda record: sum(n for kind, n in record.notes.items() if FATE_OF[kind] == fate)


def _switched(record: Round) -> int:
    """Count updates of clients of whose estimates nothing is used any more."""
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


def fit_charts(run: Run) -> list[LineChart]:
    """Return loss by iteration, and loss and iterations by round; those that the run recorded."""
    charts = (_curves_chart(run), _loss_chart(run), _iterations_chart(run))
    return [chart for chart in charts if chart is not None]


def _curves_chart(run: Run) -> LineChart | None:
    curves = [
        Line(method.label, curve, variant="warm start" if warm else "")
        for method in converting(run)
        for warm in (False, True)
        if (curve := mean_curve(run.rounds.get(method.label, {}), warm=warm))
    ]
    lines = drawable(curves, log=True)
    if not lines:
        return None
    return LineChart(
        key="fit_curves",
        title="Loss while fitting",
        desc="Loss of the fit by iteration, for first conversions of a client and for "
        "later ones, which begin with the surrogate of the one before.",
        x=Axis("iteration", high=max(curve.series.x[-1] for curve in curves), log=True),
        y=Axis("loss, relative to the update", log=True),
        lines=tuple(lines),
        size="small",
    )


def _loss_chart(run: Run) -> LineChart | None:
    lines = [
        Line(m.label, over_rounds(run.rounds.get(m.label, {}), loss_reached))
        for m in converting(run)
    ]
    y = Axis("loss, relative to the update", log=True)
    return _over_rounds(run, "fit_loss", "Loss reached", y, drawable(lines, log=True))


def _iterations_chart(run: Run) -> LineChart | None:
    lines = [
        Line(m.label, over_rounds(run.rounds.get(m.label, {}), iterations_taken))
        for m in converting(run)
    ]
    y = Axis("iterations of a conversion", low=0)
    return _over_rounds(run, "fit_iterations", "Iterations", y, drawable(lines), decimals=1)


def _over_rounds(
    run: Run, key: str, title: str, y: Axis, lines: Sequence[Line], decimals: int = 4
) -> LineChart | None:
    if not lines:
        return None
    desc = f"{title} by round: the mean over a round's conversions."
    return LineChart(
        key, title, desc, rounds_axis(run), y, tuple(lines), size="small", decimals=decimals
    )


def loss_reached(record: Round) -> float | None:
    """Return the mean final loss of a round's conversions; None where it had none."""
    found = [one.loss for one in record.converted if one.loss is not None]
    return statistics.fmean(found) if found else None


def iterations_taken(record: Round) -> float | None:
    """Return the mean iterations of a round's conversions; None where it had none."""
    found = [one.iterations for one in record.converted]
    return statistics.fmean(found) if found else None


def conversions(by_seed: BySeed) -> list[Converted]:
    """Return all conversions of a method."""
    return [one for rounds in by_seed.values() for record in rounds for one in record.converted]


def mean_curve(by_seed: BySeed, *, warm: bool) -> Series:
    """Return the loss by iteration: the mean, lowest and highest over the recorded curves.

    A fit that stopped early keeps the loss it had.
    """
    curves = [one.curve for one in conversions(by_seed) if one.curve and one.warm is warm]
    if not curves:
        return Series()
    last = max(curve[-1][0] for curve in curves)
    grid = sorted({round(last ** (i / (POINTS - 1))) for i in range(POINTS)})
    values = [[_at(curve, iteration) for curve in curves] for iteration in grid]
    return Series(
        tuple(grid),
        tuple(statistics.fmean(v) for v in values),
        tuple(min(v) for v in values),
        tuple(max(v) for v in values),
    )


def _at(curve: Curve, iteration: int) -> float:
    """Return the loss at an iteration, interpolated linearly between the recorded ones."""
    i = bisect.bisect_left(curve, iteration, key=lambda point: point[0])
    if i == 0 or i == len(curve):
        return curve[min(i, len(curve) - 1)][1]
    (before, high), (after, low) = curve[i - 1], curve[i]
    return high + (low - high) * (iteration - before) / (after - before)
