"""The settings of a method that tuning may try: a grid of values, or a list of settings."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unstale.errors import ConfigError
from unstale.experiment.strict import checked_table
from unstale.seeding import numpy_generator

# Settings by dotted key: {"lam": 5.0, "inversion.sparsity": 0.8}.
Settings = Mapping[str, Any]

# A grid is drawn from by number; one that is larger is a slip.
MAX_SIZE = 1_000_000


@dataclass(frozen=True, slots=True)
class Candidates:
    """All settings that may be tried of one method, in the order of the file.

    Example:
        >>> Candidates(grid={"a": [1, 2], "b": ["x", "y"]})[1]
        {'a': 1, 'b': 'y'}
        >>> len(Candidates(listed=({}, {"a": 3})))
        2
    """

    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Values by dotted key; every combination is one candidate."""
    listed: tuple[Settings, ...] = ()
    """Candidates one by one, in place of a grid."""

    def __len__(self) -> int:
        return len(self.listed) or math.prod(len(values) for values in self.grid.values())

    def __getitem__(self, position: int) -> dict[str, Any]:
        """Return one candidate; in a grid the last key varies first."""
        if self.listed:
            return dict(self.listed[position])
        chosen: dict[str, Any] = {}
        for key, values in reversed(list(self.grid.items())):
            position, at = divmod(position, len(values))
            chosen[key] = values[at]
        return dict(reversed(chosen.items()))

    def drawn(self, budget: int | None, seed: int, label: str) -> list[dict[str, Any]]:
        """Return the candidates to try: all, or as many as the budget allows, at random.

        What is drawn depends on the seed and the method's label alone.

        Example:
            >>> lam = Candidates(grid={"lam": range(1000)})
            >>> len(lam.drawn(3, 0, "first_order")), lam.drawn(2, 0, "a") == lam.drawn(2, 0, "a")
            (3, True)
        """
        size = len(self)
        if budget is None or budget >= size:
            return [self[position] for position in range(size)]
        draw = numpy_generator(seed, "tuning", label)
        return [self[int(at)] for at in sorted(draw.choice(size, budget, replace=False))]

    def to_json(self) -> Any:
        """Return what `parse_candidates` reads back."""
        if self.listed:
            return [dict(settings) for settings in self.listed]
        return {key: list(values) for key, values in self.grid.items()}


def parse_candidates(value: object, where: str) -> Candidates:
    """Return the candidates that `tune` of a method describes.

    Args:
        value: A table with a list of values for each setting (a grid), or a list of tables,
            each of which is one candidate. Groups are tables within, or dotted keys.
        where: Its name in the file, for messages.

    Raises:
        ConfigError: If it is neither, empty, or holds something twice.

    Example:
        >>> parse_candidates({"lam": [1, 5], "inversion": {"sparsity": [0, 0.9]}}, "tune").grid
        {'lam': [1, 5], 'inversion.sparsity': [0, 0.9]}
    """
    if isinstance(value, list):
        listed = [dict(_flat(checked_table(table, where))) for table in value]
        _all_different(listed, where, "tables of settings")
        return Candidates(listed=tuple(listed))
    grid = dict(_flat(checked_table(value, where)))
    if not grid:
        raise ConfigError(
            f"`{where}` should have a list of values for at least one setting. Found none. "
            "Write tune = { SETTING = [VALUE, VALUE] }."
        )
    for key, values in grid.items():
        if not isinstance(values, list):
            raise ConfigError(
                f"`{where}.{key}` should be a list of values to try. Found {values!r}."
            )
        _all_different(values, f"{where}.{key}", "values")
    found = Candidates(grid=grid)
    if len(found) > MAX_SIZE:
        raise ConfigError(
            f"`{where}` should have at most {MAX_SIZE:,} combinations. Found {len(found):,}. "
            "Give fewer values, or a list of tables, each of which is tried."
        )
    return found


def _flat(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _all_different(values: Sequence[Any], where: str, what: str) -> None:
    twice = [one for one, other in itertools.combinations(values, 2) if one == other]
    if twice or not values:
        found = f"{twice[0]!r} twice" if twice else "an empty list"
        raise ConfigError(f"`{where}` should be a list of different {what}. Found {found}.")
