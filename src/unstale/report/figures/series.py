"""Lines over rounds: the mean over seeds, with a band from the lowest seed to the highest."""

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from unstale.report.records import Round

# More points than this on a line cannot be told apart on a screen and make the page heavy.
MAX_POINTS = 400

BySeed = Mapping[int, Sequence[Round]]
# A round and its mean, lowest and highest value over seeds.
Point = tuple[int, float, float, float]


@dataclass(frozen=True, slots=True)
class Series:
    """One line with its band; all four have the same length."""

    x: tuple[int, ...] = ()
    """Rounds, or iterations."""
    mean: tuple[float, ...] = ()
    """Mean over the seeds that have the round."""
    low: tuple[float, ...] = ()
    """The lowest of them."""
    high: tuple[float, ...] = ()
    """The highest of them."""

    @classmethod
    def of(cls, points: Sequence[Point]) -> "Series":
        """Build a series from its points."""
        return cls(
            x=tuple(p[0] for p in points),
            mean=tuple(float(p[1]) for p in points),
            low=tuple(float(p[2]) for p in points),
            high=tuple(float(p[3]) for p in points),
        )

    def __bool__(self) -> bool:
        """Whether there is anything to draw."""
        return bool(self.x)

    def above_zero(self) -> "Series":
        """Return the part that a logarithmic axis can show.

        Points whose mean is not above 0 are left out; a band that reaches down to 0 ends
        at a tenth of the mean.
        """
        points = zip(self.x, self.mean, self.low, self.high, strict=True)
        return Series.of([(x, m, lo if lo > 0 else m / 10, hi) for x, m, lo, hi in points if m > 0])


def over_rounds(
    by_seed: BySeed,
    pick: Callable[[Round], float | None],
    max_points: int = MAX_POINTS,
    window: int = 1,
) -> Series:
    """Return the line of what `pick` finds in each round; rounds where it finds None are left out.

    Long lines are thinned: neighbouring rounds become one point at the last of
    them, with the mean of their means and a band that holds all of their bands.

    Args:
        by_seed: The rounds of a method, by seed.
        pick: What to show of a round.
        max_points: How many points the line may have.
        window: How many rounds each seed's values are smoothed over, before seeds are
            averaged; 1 smooths nothing.
    """
    seeds: dict[int, list[float]] = {}
    for rounds in by_seed.values():
        found = [(r.number, value) for r in rounds if (value := pick(r)) is not None]
        for at, value in trailing_means(found, window):
            seeds.setdefault(at, []).append(value)
    points = [(at, statistics.fmean(v), min(v), max(v)) for at, v in sorted(seeds.items())]
    merged = [
        (
            group[-1][0],
            statistics.fmean(p[1] for p in group),
            min(p[2] for p in group),
            max(p[3] for p in group),
        )
        for group in _groups(points, max_points)
    ]
    return Series.of(merged)


def trailing_means(points: Sequence[tuple[int, float]], window: int) -> list[tuple[int, float]]:
    """Return each point's mean with those of the last `window` rounds, itself included.

    This is the smoothed accuracy by which a target is held (`time_to_target`), so a smoothed
    line crosses the target in the round that the table gives.

    Example:
        >>> trailing_means([(1, 0.0), (2, 1.0), (3, 1.0)], window=2)
        [(1, 0.0), (2, 0.5), (3, 1.0)]
    """
    smoothed = []
    for end, (last, _) in enumerate(points, start=1):
        near = [v for at, v in points[max(0, end - window) : end] if at > last - window]
        smoothed.append((last, statistics.fmean(near)))
    return smoothed


def totals(by_seed: BySeed, count: Callable[[Round], int], max_points: int = MAX_POINTS) -> Series:
    """Return the running total of `count`; empty where nothing was ever counted."""
    seeds: dict[int, list[int]] = {}
    for rounds in by_seed.values():
        running = itertools.accumulate(count(record) for record in rounds)
        for record, total in zip(rounds, running, strict=True):
            seeds.setdefault(record.number, []).append(total)
    points = [(at, statistics.fmean(v), min(v), max(v)) for at, v in sorted(seeds.items())]
    if not any(high for *_, high in points):
        return Series()
    # A running total loses nothing when only each group's last round is kept.
    return Series.of([group[-1] for group in _groups(points, max_points)])


def _groups(points: Sequence[Point], max_points: int) -> list[Sequence[Point]]:
    size = max(1, -(-len(points) // max_points))
    return [points[start : start + size] for start in range(0, len(points), size)]
