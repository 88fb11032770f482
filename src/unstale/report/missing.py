"""Rounds that a finished run should have and does not: its summary then speaks of another state.

That happens when files were deleted or cut, or copied only in part. The summary of such a folder
is not used; its numbers are computed from the rounds that are there, and are provisional. A
folder without any round has only its summary, which is shown with a warning.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from unstale.report.records import RoundsOf


@dataclass(frozen=True, slots=True)
class Missing:
    """Rounds of one method and seed that are not there."""

    label: str
    """The method."""
    seed: int
    """The seed."""
    rounds: tuple[int, ...]
    """Their numbers, at least one."""
    planned: int
    """How many there should be."""

    def __str__(self) -> str:
        """Say which, such as "convert, seed 1: rounds 49 to 60 of 60"."""
        first, last = self.rounds[0], self.rounds[-1]
        whole = last - first + 1 == len(self.rounds)
        if len(self.rounds) == self.planned:
            which = f"all {self.planned} rounds"
        elif first == last:
            which = f"round {first} of {self.planned}"
        elif whole:
            which = f"rounds {first} to {last} of {self.planned}"
        else:
            which = f"{len(self.rounds)} of {self.planned} rounds, between {first} and {last}"
        return f"{self.label}, seed {self.seed}: {which}"


def find_missing(
    rounds: RoundsOf,
    labels: Sequence[str],
    seeds: Sequence[int],
    planned: int,
    failed: Collection[tuple[str, int]] = (),
) -> tuple[Missing, ...]:
    """Return what is missing of the rounds 1 to `planned` of every method and seed.

    Args:
        rounds: What is there.
        labels: The methods that the config lists.
        seeds: The seeds that the config lists.
        planned: How many rounds there should be.
        failed: Methods and seeds that ended early and wrote down why, as tries of a tuning may.
    """
    found = []
    for label in labels:
        for seed in seeds:
            there = {record.number for record in rounds.get(label, {}).get(seed, ())}
            absent = tuple(t for t in range(1, planned + 1) if t not in there)
            if absent and (label, seed) not in failed:
                found.append(Missing(label, seed, absent, planned))
    return tuple(found)
