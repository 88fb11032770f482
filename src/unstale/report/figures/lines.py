"""The model of a line chart, and the line charts that every run may have.

Those are accuracy, seconds per round, and what the server did not use. The line charts of
conversions are in `conversions`, `errors` and `switching`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from unstale.report.figures.series import Series, over_rounds, totals
from unstale.report.records import Round, Run


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart, in the colour of its method."""

    method: str
    """The method's label."""
    series: Series
    """Its points."""
    variant: str = ""
    """Names a second line of the method, which is drawn dotted; empty for the first."""
    name: str = ""
    """What the line shows within its method, such as a client; foreign text."""
    raw: tuple[float, ...] = ()
    """The same means before they were smoothed, point by point; empty where nothing was."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: its label and its range, where that does not follow from the data."""

    label: str
    """Its label."""
    low: float | None = None
    """Its lower end."""
    high: float | None = None
    """Its upper end."""
    log: bool = False
    """Whether it is logarithmic."""
    digits: int = 1
    """Digits after the point when the page reads out a value; a logarithmic axis ignores it."""


# `hero` opens the page; `whole` has a section to itself, whose heading is its title; `part`
# shares a section and shows its title; `small` ones stand side by side.
Size = Literal["hero", "whole", "part", "small"]


@dataclass(frozen=True, slots=True)
class LineChart:
    """Lines over rounds or iterations, with bands."""

    key: str
    """Its name on the page and the name of its PNG."""
    title: str
    """Its heading."""
    desc: str
    """What it shows, for those who cannot see it."""
    x: Axis
    """Rounds or iterations."""
    y: Axis
    """What is shown."""
    lines: tuple[Line, ...]
    """At least one; none is empty."""
    size: Size = "whole"
    """How much room it has."""
    target: float | None = None
    """A value to mark across the chart."""
    thin: bool = False
    """Whether there are many lines, each of little weight."""
    window: int = 1
    """How many rounds its lines are smoothed over; 1 where they are as they were measured."""
    decimals: int = 4
    """Digits of a value that were measured: after the point, or significant on a log axis."""

    @property
    def variant(self) -> str:
        """What its dotted lines are; empty where it has none."""
        return next((line.variant for line in self.lines if line.variant), "")


def rounds_axis(run: Run) -> Axis:
    """Return the axis of rounds: it shows all planned ones, also those still to come."""
    return Axis("round", high=run.last_round)


def log_axis(label: str) -> Axis:
    """Return a logarithmic axis, as errors and losses have."""
    return Axis(label, log=True)


def method_lines(run: Run, pick: Callable[[Round], float | None]) -> list[Line]:
    """Return one line for each method in which `pick` finds anything."""
    return drawable(
        Line(m.label, over_rounds(run.rounds.get(m.label, {}), pick)) for m in run.methods
    )


def drawable(lines: Iterable[Line], *, log: bool = False) -> list[Line]:
    """Return the lines that have points; for a logarithmic axis, points above 0."""
    kept = [replace(line, series=line.series.above_zero()) if log else line for line in lines]
    return [line for line in kept if line.series]


def accuracy_chart(run: Run) -> LineChart | None:
    """Return accuracy in the affected classes by round; None where no round was evaluated.

    Where the run does not say which classes are affected, it is the accuracy in all classes.
    """
    return _accuracy_chart(run, affected=run.knows_affected, size="hero")


def overall_chart(run: Run) -> LineChart | None:
    """Return accuracy in all classes by round; None where `accuracy_chart` is that already."""
    return _accuracy_chart(run, affected=False, size="part") if run.knows_affected else None


def _accuracy_chart(run: Run, *, affected: bool, size: Size) -> LineChart | None:
    window = smoothing_window(run)
    lines = []
    for method in run.methods:
        by_seed = run.rounds.get(method.label, {})
        raw = over_rounds(by_seed, _affected if affected else _overall)
        smoothed = over_rounds(by_seed, _affected if affected else _overall, window=window)
        lines.append(Line(method.label, smoothed, raw=() if raw == smoothed else raw.mean))
    if not (drawn := drawable(lines)):
        return None
    # Rounds that are evaluated further apart than the window are as they were measured.
    window = window if any(line.raw for line in drawn) else 1
    where = "in the affected class" if affected else "in all classes"
    smoothing = f", as a mean of the last {window} rounds" if window > 1 else ""
    return LineChart(
        key="affected_accuracy" if affected else "accuracy",
        title="Affected-class accuracy by round"
        if affected
        else "Accuracy in all classes by round"
        if size == "part"
        else "Accuracy by round",
        desc=f"Test accuracy {where} by round{smoothing}: one line for each method, "
        "the mean over seeds, with a band from the lowest seed to the highest.",
        x=rounds_axis(run),
        y=Axis(f"accuracy {where}", low=0, high=1, digits=3),
        lines=tuple(drawn),
        size=size,
        target=run.target if affected else None,
        window=window,
    )


def smoothing_window(run: Run) -> int:
    """Return how many rounds accuracy is smoothed over: those by which the target is held.

    A run that is not several times as long is shown as it was measured.
    """
    return run.window if run.last_round >= 3 * run.window else 1


def _affected(record: Round) -> float | None:
    return record.affected_accuracy


def _overall(record: Round) -> float | None:
    return record.accuracy


def seconds_chart(run: Run) -> LineChart | None:
    """Return the wall time of each round on real clients; simulated rounds are left out."""
    lines = method_lines(run, lambda r: r.seconds if r.nodes is not None else None)
    if not lines:
        return None
    return LineChart(
        key="seconds",
        title="Seconds a round",
        desc="Wall time of each round, from handing out work to the new model.",
        x=rounds_axis(run),
        y=Axis("seconds", low=0),
        lines=tuple(lines),
        size="part",
        decimals=2,
    )


COUNTERS: tuple[tuple[str, str, Callable[[Round], int]], ...] = (
    ("fallbacks", "Fallbacks", lambda r: r.notes.get("fallback", 0)),
    ("dropped", "Dropped updates", lambda r: r.notes.get("dropped", 0)),
    ("refusals", "Refusals", lambda r: sum(r.refused.values())),
)


def counter_charts(run: Run) -> list[LineChart]:
    """Return running totals of fallbacks, drops and refusals; those that ever happened."""
    found = []
    for key, title, count in COUNTERS:
        lines = drawable(
            Line(m.label, totals(run.rounds.get(m.label, {}), count)) for m in run.methods
        )
        if lines:
            over_seeds = ", mean over seeds" if len(run.seeds) > 1 else ""
            found.append(
                LineChart(
                    key=key,
                    title=title,
                    desc=f"{title} since the start, by round: one line for each method that "
                    "has any.",
                    x=rounds_axis(run),
                    y=Axis(f"since the start{over_seeds}", low=0),
                    lines=tuple(lines),
                    size="small",
                    decimals=1,
                )
            )
    return found
