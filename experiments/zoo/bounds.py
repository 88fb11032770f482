"""Conversion beside half of a client's own data: how much of what can be had is had?

The two are measured in files of their own: half of the data needs no conversion, so a CPU does it
for all cells. Both are ratios to the stale update's cosine distance in the same file.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from figures import Result, read, results
from tables import BIG, RUN_AIM, small, table


class Pair(NamedTuple):
    """One cell in both files."""

    converted: Result
    half: Result


def pairs(converted: Path, half: Path) -> list[Pair]:
    """Return the cells that are in both files, in the order of the first."""
    halves = {one.name: one for one in results(read([half])[1])}
    found = results(read([converted])[1])
    return [Pair(one, halves[one.name]) for one in found if one.name in halves]


def beside_half(converted: Path, half: Path, method: str) -> str:
    """Return the ratios of a method and of half of the data, for a page.

    Args:
        converted: A file with the method.
        half: A file with the rows `half`.
        method: A label.
    """

    def ratios(one: Result, label: str) -> str:
        return " / ".join(small(one.ratio(label, when)) for when in ("first", "run"))

    return table(
        ["cell", "τ", f"{method}: first / in a run", "half its data: first / in a run"],
        (
            [one.name, str(one.staleness), ratios(one, method), ratios(other, "half")]
            for one, other in pairs(converted, half)
        ),
    )


def as_good(converted: Path, half: Path, method: str, when: str) -> list[int]:
    """Return in how many cells a method is as good as half of the data, and of how many."""
    found = [
        one.ratio(method, when) <= other.ratio("half", when)
        for one, other in pairs(converted, half)
    ]
    return [sum(found), len(found)]


def half_meets_the_aim(converted: Path, half: Path, method: str) -> list[int]:
    """Return in how many late cells the method and half of the data meet the aim in a run.

    Returns:
        Cells in which the method does, in which half of the data does, and all of them.
    """
    late = [pair for pair in pairs(converted, half) if pair.converted.staleness >= BIG]
    return [sum(met) for met in zip(*_met(late, method), strict=True)]


def _met(late: list[Pair], method: str) -> Iterator[tuple[bool, bool, bool]]:
    for one, other in late:
        yield one.ratio(method, "run") <= RUN_AIM, other.ratio("half", "run") <= RUN_AIM, True
