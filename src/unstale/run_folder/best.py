"""Which methods are the best of a column of the summary, and may be marked as such.

The terminal and the report page mark by the same rule:

- Only methods compete that have to live with the delay and went through all rounds; `no_delay`
  does not.
- A method is never marked if the loss of its model was not finite at the end of any seed, or if
  it ends far from the best: its `accuracy` must be at most `NEAR` below that of the best method.
  A model that calls everything a five knows all fives, and is no good.
- For time (`held_from`, `share_saved`) the same must hold of `affected_accuracy`, and the
  target must be held in every seed: fewer rounds to a lower accuracy are no gain.
- A figure of 0 or less is never marked: nothing was learned of the affected classes, or no round
  was saved.
- Methods whose numbers read the same are marked alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NO_DELAY = "no_delay"
"""The method that does not compete: nothing is late under it."""
NEAR = 0.05
"""How far below the best accuracy a method may end that is marked."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A column in which a method can be the best."""

    digits: int
    """Digits after the point that are shown: numbers that read the same are a tie."""
    highest: bool = True
    """Whether the highest is best; false for the lowest."""
    is_time: bool = False
    """Whether it is a time, which counts only with the accuracy that was reached in it."""


FIGURES: dict[str, Figure] = {
    "accuracy": Figure(3),
    "affected_accuracy": Figure(3),
    "affected_mean": Figure(3),
    "held_from": Figure(0, highest=False, is_time=True),
    "share_saved": Figure(2, is_time=True),
}


@dataclass(frozen=True, slots=True)
class Entrant:
    """A method that has to live with the delay, with what it reached."""

    values: Mapping[str, float | None]
    """Means over seeds by figure."""
    diverged: bool = False
    """Whether any seed ended with a loss that is not finite."""
    held_in_all: bool = True
    """Whether the target was held in every seed."""


def entrants_of(methods: Mapping[str, Mapping[str, Any]]) -> dict[str, Entrant]:
    """Return those that compete, of the methods of a finished run's summary."""
    return {
        label: Entrant(
            found,
            diverged=bool(found.get("diverged")),
            held_in_all=found.get("held_seeds") == len(found.get("per_seed", ())),
        )
        for label, found in methods.items()
        if found.get("name", label) != NO_DELAY
    }


def best_of(entrants: Mapping[str, Entrant]) -> dict[str, frozenset[str]]:
    """Return the labels to mark, by figure; none where fewer than two methods compete.

    Example:
        >>> best_of({
        ...     "a": Entrant({"accuracy": 0.9, "affected_accuracy": 0.9, "held_from": 50.0}),
        ...     "b": Entrant({"accuracy": 0.9, "affected_accuracy": 0.8, "held_from": 40.0}),
        ... })["held_from"]
        frozenset({'a'})
    """
    sound = {label: one for label, one in entrants.items() if not one.diverged}
    near = _near(sound, "accuracy")
    near_affected = _near({label: sound[label] for label in near}, "affected_accuracy")
    found: dict[str, frozenset[str]] = {}
    for name, figure in FIGURES.items():
        read = {
            label: round(value, figure.digits)
            for label, one in sound.items()
            if label in (near_affected if figure.is_time else near)
            and (one.held_in_all or not figure.is_time)
            and (value := one.values.get(name)) is not None
            and round(value, figure.digits) > 0
        }
        best = (max if figure.highest else min)(read.values(), default=None)
        several = len(entrants) > 1
        found[name] = frozenset(label for label in read if several and read[label] == best)
    return found


def _near(entrants: Mapping[str, Entrant], name: str) -> set[str]:
    """Return those that end at most `NEAR` below the best of them; all if nothing is known."""
    known = {label: v for label, one in entrants.items() if (v := one.values.get(name)) is not None}
    if not known:
        return set(entrants)
    best = max(known.values())
    return {label for label, value in known.items() if value >= best - NEAR - 1e-9}
