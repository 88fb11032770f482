"""The experiment's table `[tuning]`: on which seeds, how many settings, and by which measure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unstale.errors import ConfigError, UnknownNameError
from unstale.experiment.tuning.candidates import Candidates
from unstale.experiment.tuning.criteria import CRITERIA, DEFAULT


@dataclass(frozen=True, slots=True)
class TuningSpec:
    """How settings are chosen; the same for every method."""

    seeds: tuple[int, ...] = (0, 1)
    """The seeds that settings are tried on. None of them may be among the experiment's `seeds`."""
    budget: int | None = None
    """How many settings of each method are tried; of more, so many are drawn at random. If left \
out, all are tried, and every method must have equally many."""
    criterion: str = DEFAULT
    """The measure that chooses; the highest mean over tuning seeds wins."""

    def __post_init__(self) -> None:
        if not self.seeds or min(self.seeds) < 0 or len(set(self.seeds)) != len(self.seeds):
            raise ConfigError(
                "`seeds` should be a list of different whole numbers of at least 0. "
                f"Found {list(self.seeds)}."
            )
        if self.budget is not None and self.budget < 1:
            raise ConfigError(f"`budget` should be at least 1. Found {self.budget}.")
        if self.criterion not in CRITERIA:
            raise UnknownNameError("`criterion`", self.criterion, CRITERIA)


def check_seeds(reported: Sequence[int], tuning: Sequence[int]) -> None:
    """Raise ConfigError if a seed is both tuned on and reported."""
    if both := sorted(set(reported) & set(tuning)):
        raise ConfigError(
            "Seeds that are reported should be others than those that settings are chosen on. "
            f"Found {both} in both `seeds` and `tuning.seeds`. Report other ones, such as "
            "seeds = [10, 11, 12], or tune on others."
        )


def check_budget(candidates: Mapping[str, Candidates], budget: int | None) -> None:
    """Raise ConfigError if no budget is stated and methods would not have the same one."""
    sizes = {label: len(found) for label, found in candidates.items()}
    if budget is None and len(set(sizes.values())) > 1:
        told = ", ".join(f"{label} {size}" for label, size in sizes.items())
        raise ConfigError(
            "Every method that is tuned should have the same budget. Found different numbers of "
            f"settings: {told}. List equally many, or give tuning.budget, the number that is "
            "tried of each."
        )
