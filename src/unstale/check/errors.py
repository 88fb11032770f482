"""How far one update is from another: the distances in which conversions are judged."""

import math
from dataclasses import dataclass

from unstale.params import Params, flatten, l1_error


@dataclass(frozen=True, slots=True)
class Errors:
    """The distances of an update from the true one. All are 0 for the truth itself."""

    cosine: float
    """Cosine distance: 1 minus the cosine of the angle between the two."""
    l1: float
    """`Σ|v − t| / Σ|t|`."""
    l2: float
    """`‖v − t‖ / ‖t‖`."""
    norms: float
    """`‖v‖ / ‖t‖`: below 1 for an update that is too small."""


def errors_of(value: Params, truth: Params) -> Errors:
    """Return the distances of `value` from `truth`; NaN where the truth is zero.

    Example:
        >>> import torch
        >>> errors_of({"w": torch.tensor([1.0, 0.0])}, {"w": torch.tensor([1.0, 1.0])}).l1
        0.5
    """
    v, t = flatten(value).double(), flatten(truth).double()
    size = float(t.norm())
    if not size > 0:
        return Errors(math.nan, math.nan, math.nan, math.nan)
    length = float(v.norm())
    cosine = 1.0 - float(v @ t) / (length * size) if length > 0 else 1.0
    return Errors(
        cosine=max(cosine, 0.0),  # rounding
        l1=l1_error(value, truth),
        l2=float((v - t).norm()) / size,
        norms=length / size,
    )
