"""Criteria: the named measures by which tuning chooses among a method's settings.

All of them are means of accuracies, over rounds and tuning seeds, and higher is better.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from unstale.errors import ConfigError
from unstale.run_folder import Round

# The figures of a try, each a mean over evaluated rounds: of which accuracy, from which
# share of the rounds on. The names that a summary has, too, mean the same there.
FIGURES: Mapping[str, tuple[Callable[[Round], float | None], float]] = {
    "affected_mean": (lambda line: line.affected_accuracy, 1 / 2),
    "accuracy_mean": (lambda line: line.accuracy, 1 / 2),
    "affected_accuracy": (lambda line: line.affected_accuracy, 4 / 5),
    "accuracy": (lambda line: line.accuracy, 4 / 5),
}


@dataclass(frozen=True, slots=True)
class Criterion:
    """A measure of how good a setting is."""

    says: str
    """What it measures, in words."""
    of: tuple[str, ...]
    """The figures that it is the mean of."""
    tie: str
    """The figure that decides between settings of the same score."""

    @property
    def needs_affected(self) -> bool:
        """Whether it means nothing without affected classes."""
        return any(figure.startswith("affected") for figure in self.of)

    def score(self, figures: Mapping[str, float | None]) -> float | None:
        """Return the score of a try; None where one of its figures is missing."""
        values = [figures[name] for name in self.of]
        known = [value for value in values if value is not None]
        return statistics.fmean(known) if len(known) == len(values) else None


# The affected class alone would choose settings that keep it by ruining the others.
DEFAULT = "affected_and_overall"
CRITERIA: Mapping[str, Criterion] = {
    DEFAULT: Criterion(
        "mean of the accuracies on affected classes and on all classes, second half of the rounds",
        ("affected_mean", "accuracy_mean"),
        "affected_mean",
    ),
    "affected_mean": Criterion(
        "accuracy on affected classes, second half of the rounds",
        ("affected_mean",),
        "accuracy_mean",
    ),
    "affected_accuracy": Criterion(
        "accuracy on affected classes, last fifth of the rounds", ("affected_accuracy",), "accuracy"
    ),
    "accuracy": Criterion(
        "accuracy on all classes, last fifth of the rounds", ("accuracy",), "affected_accuracy"
    ),
}


def figures_of(lines: Sequence[Round], rounds: int) -> dict[str, float | None]:
    """Return the figures of one try under one seed; None without an evaluated round.

    Example:
        >>> lines = [Round(r, accuracy=r / 10, affected_accuracy=0.5) for r in range(1, 11)]
        >>> figures_of(lines, 10)["accuracy_mean"]
        0.8
    """
    found: dict[str, float | None] = {}
    for name, (pick, share) in FIGURES.items():
        late = (pick(line) for line in lines if line.number > rounds * share)
        values = [value for value in late if value is not None]
        found[name] = statistics.fmean(values) if values else None
    return found


def divergence(lines: Sequence[Round]) -> str:
    """Return how a run diverged, in words; an empty text if it did not.

    A run has diverged if the loss of an evaluated round is not finite, or if the result of a
    round was discarded because it was not.

    Example:
        >>> divergence([Round(7, accuracy=0.1, loss=None)])
        'diverged: the loss was not finite in round 7'
    """
    for line in lines:
        if line.notes.get("discarded"):
            return f"diverged: the result was not finite in round {line.number}"
        if line.accuracy is not None and line.loss is None:
            return f"diverged: the loss was not finite in round {line.number}"
    return ""


def check_affected(criterion: str, affected: Sequence[int], seed: int) -> None:
    """Raise ConfigError if a criterion needs affected classes and a seed has none."""
    if CRITERIA[criterion].needs_affected and not affected:
        raise ConfigError(
            f"`tuning.criterion` = '{criterion}' should have affected classes to measure. "
            f"Found none under tuning seed {seed}. Give evaluate.affected, or "
            "tuning.criterion = 'accuracy'."
        )
