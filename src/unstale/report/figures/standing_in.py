"""Stand-ins: whom the server stood in for, how old they were, how far off they proved to be.

A stand-in is no client's update, so it is in no other figure: neither among arrivals and
stale updates nor among conversions.
"""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from unstale.report.figures.errors import COSINE, DISTANCES, L1, Distance, oracle_figure
from unstale.report.figures.lines import (
    Axis,
    Line,
    LineChart,
    drawable,
    log_axis,
    method_lines,
    rounds_axis,
)
from unstale.report.figures.series import over_rounds
from unstale.report.records import Method, Round, Run
from unstale.run_folder.schema import Checked


@dataclass(frozen=True, slots=True)
class StoodInFor:
    """What one method did for one client, under one seed."""

    client: str
    """Whom; foreign text."""
    times: int
    """How often the server stood in for it."""
    mean_age: float
    """The mean age of its stand-ins, in versions."""
    max_age: int
    """The age of the oldest."""
    mean_weight: float
    """Their mean weight, as a share of that of an own update."""
    mean_scale: float
    """The mean factor by which they were scaled up."""
    own: int
    """Updates of its own that are known: stand-ins were made from them, or they were converted."""
    errors: tuple[float, ...]
    """The cosine distances that its own updates later showed, check by check."""
    l1: tuple[float, ...] = ()
    """The same as relative L1 errors; a run of before has none."""


def standing_in(run: Run) -> list[Method]:
    """Return the methods that stood in for anybody."""
    return [method for method in run.methods if any(r.stand_ins for r in rounds_of(run, method))]


def rounds_of(run: Run, method: Method) -> Iterable[Round]:
    """Return the rounds of all seeds of a method."""
    return (r for rounds in run.rounds.get(method.label, {}).values() for r in rounds)


def stand_in_charts(run: Run) -> list[LineChart]:
    """Return age, errors found later and true errors by round; those that the run has."""
    charts = [_age_chart(run)]
    for distance in DISTANCES:
        charts += [_checked_chart(run, distance), _truth_chart(run, distance)]
    return [chart for chart in charts if chart is not None]


def _age_chart(run: Run) -> LineChart | None:
    lines = []
    for method in standing_in(run):
        by_seed = run.rounds.get(method.label, {})
        mean, oldest = over_rounds(by_seed, mean_age), over_rounds(by_seed, max_age)
        lines.append(Line(method.label, mean))
        # With one stand-in a round the two are the same line.
        if oldest != mean:
            lines.append(Line(method.label, oldest, variant="oldest"))
    desc = (
        "Age of the round's stand-ins, in versions: the mean, and dotted the oldest where a "
        "round had several."
    )
    y = Axis("age in versions", low=0)
    return _small(run, "stand_in_age", "Age of stand-ins", desc, y, drawable(lines), decimals=1)


def _checked_chart(run: Run, distance: Distance) -> LineChart | None:
    desc = (
        f"The {distance.name} between a client's own update and what had stood in for it, both "
        "from the same version; by the round in which the own update came."
    )
    y = log_axis(f"{distance.name} to the own update")
    lines = drawable(method_lines(run, lambda r: mean_checked(r, distance)), log=True)
    key, title = f"stand_in_checked{distance.suffix}", f"Error found later{_by(distance)}"
    return _small(run, key, title, desc, y, lines)


def _truth_chart(run: Run, distance: Distance) -> LineChart | None:
    desc = (
        f"The {distance.name} between stand-ins and what the absent clients would have sent, by "
        "round; only a simulation can know it."
    )
    y = log_axis(f"{distance.name} to the true update")
    lines = drawable(method_lines(run, oracle_figure("stand_in", distance)), log=True)
    key, title = f"stand_in_truth{distance.suffix}", f"True error{_by(distance)}"
    return _small(run, key, title, desc, y, lines)


def _by(distance: Distance) -> str:
    return ", L1" if distance is L1 else ""


def _small(
    run: Run, key: str, title: str, desc: str, y: Axis, lines: Sequence[Line], decimals: int = 4
) -> LineChart | None:
    if not lines:
        return None
    return LineChart(
        key, title, desc, rounds_axis(run), y, tuple(lines), size="small", decimals=decimals
    )


def mean_age(record: Round) -> float | None:
    """Return the mean age of a round's stand-ins; None where it had none."""
    return statistics.fmean(one.age for one in record.stand_ins) if record.stand_ins else None


def max_age(record: Round) -> float | None:
    """Return the age of a round's oldest stand-in; None where it had none."""
    return max((one.age for one in record.stand_ins), default=None)


def error_of(check: Checked, distance: Distance = COSINE) -> float | None:
    """Return what a check found in a distance; None where it was not measured."""
    return check.l1 if distance is L1 else check.error


def mean_checked(record: Round, distance: Distance = COSINE) -> float | None:
    """Return the mean error that a round's own updates showed; None where they showed none."""
    found = [e for one in record.checked if (e := error_of(one, distance)) is not None]
    return statistics.fmean(found) if found else None


def mean_over(
    run: Run, method: Method, pick: Callable[[Round], Iterable[float | None]]
) -> float | None:
    """Return the mean of what `pick` finds in the rounds of all seeds; None where nothing is."""
    values = [v for record in rounds_of(run, method) for v in pick(record) if v is not None]
    return statistics.fmean(values) if values else None


def stood_in_for(run: Run, method: Method) -> tuple[int, list[StoodInFor]]:
    """Return whom a method stood in for, most often first, under its first seed with stand-ins.

    Clients of another seed may have the same names, but hold other data.

    Raises:
        LookupError: If it stood in for nobody.
    """
    for seed, rounds in run.rounds.get(method.label, {}).items():
        clients = {one.client for record in rounds for one in record.stand_ins}
        if clients:
            found = [_of_client(client, rounds) for client in clients]
            return seed, sorted(found, key=lambda one: (-one.times, one.client))
    raise LookupError(f"A method that stood in for somebody is needed. Found {method.label!r}.")


def _of_client(client: str, rounds: Sequence[Round]) -> StoodInFor:
    made = [(r, one) for r in rounds for one in r.stand_ins if one.client == client]
    ages = [one.age for _, one in made]
    # A step starts from the version before the one that it makes.
    known = {record.version - 1 - one.age for record, one in made}
    known |= {one.base_version for r in rounds for one in r.converted if one.client == client}
    return StoodInFor(
        client,
        times=len(made),
        mean_age=statistics.fmean(ages),
        max_age=max(ages),
        mean_weight=statistics.fmean(one.weight for _, one in made),
        mean_scale=statistics.fmean(one.scale for _, one in made),
        own=len(known),
        errors=_found(client, rounds, COSINE),
        l1=_found(client, rounds, L1),
    )


def _found(client: str, rounds: Sequence[Round], distance: Distance) -> tuple[float, ...]:
    checks = (one for record in rounds for one in record.checked if one.client == client)
    return tuple(error for one in checks if (error := error_of(one, distance)) is not None)
