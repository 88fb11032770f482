"""Pictures of an audit: originals, and below each what every attack found of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from unstale.audit.metrics.matching import match
from unstale.audit.metrics.pictures import mean_squared_errors, unit_range
from unstale.inversion import InputSpec

MOST = 8
ORIGINAL = "original"


@dataclass(frozen=True, slots=True)
class Strip:
    """One row of pictures, each below the original that it is matched with."""

    name: str
    """What it shows."""
    shape: tuple[int, ...]
    """The shape of one input."""
    x: tuple[tuple[float, ...], ...]
    """Inputs in [0, 1], each as one row of values."""
    labels: tuple[int, ...] = ()
    """The classes of originals; empty for others."""


def strips_of(
    sets: Mapping[str, Tensor], x: Tensor, y: Tensor, inputs: InputSpec, most: int = MOST
) -> list[Strip]:
    """Return rows of pictures: some originals, and what of each set is matched with them.

    Where a set has fewer inputs than there are originals, one without a match shows the nearest.

    Args:
        sets: Recovered inputs and baselines, by name.
        x: The client's inputs.
        y: Its labels.
        inputs: What one input looks like, with bounds.
        most: The most originals that are shown; the first ones, not the best ones.
    """
    own = unit_range(x, inputs)
    shown = min(most, len(own))
    strips = [Strip(ORIGINAL, inputs.shape, _values(own[:shown]), tuple(y[:shown].tolist()))]
    for name, recovered in sets.items():
        found = unit_range(recovered.to(x), inputs)
        errors = mean_squared_errors(found, own)
        pairs = match(errors)
        at = dict(zip(pairs.originals, pairs.recovered, strict=True))
        chosen = [at.get(i, int(errors[:, i].argmin())) for i in range(shown)]
        strips.append(Strip(name, inputs.shape, _values(found[chosen])))
    return strips


def _values(x: Tensor) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(round(v, 3) for v in row.flatten().tolist()) for row in x.detach().cpu())
