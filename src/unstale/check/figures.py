"""Means over several conversions: how far stale and converted updates are from the truth."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields

from unstale.check.errors import Errors
from unstale.check.trial import Measured


@dataclass(frozen=True, slots=True)
class Figures:
    """What several conversions gave, on average."""

    conversions: int
    """Their number, failed ones included."""
    failed: int
    """How many failed; the stale update was used in their place."""
    stale: Errors
    """The mean distances of the stale updates from the true ones."""
    converted: Errors
    """The mean distances of what conversion made of them."""
    seconds: float
    """The mean seconds of one conversion."""
    memory: int | None
    """The peak of GPU memory in bytes; None on a CPU."""
    again: Errors | None = None
    """The mean distances of the clients' own updates, trained again with other batches; None where
    clients train on all their data at once."""
    half: Errors | None = None
    """The mean distances of updates from half of each client's samples: what a server could do
    that knew so much of their data. None where clients have one sample."""

    @property
    def ratio(self) -> float:
        """The cosine distance of converted updates, divided by that of stale ones.

        0 is a perfect conversion and 1 is no gain. NaN where stale updates have no error,
        or where the truth is unknown.
        """
        return _ratio(self.converted.cosine, self.stale.cosine)

    @property
    def l1_ratio(self) -> float:
        """The relative L1 error of converted updates, divided by that of stale ones."""
        return _ratio(self.converted.l1, self.stale.l1)

    @property
    def l2_ratio(self) -> float:
        """The relative L2 distance of converted updates, divided by that of stale ones."""
        return _ratio(self.converted.l2, self.stale.l2)


def figures_of(measured: Sequence[Measured]) -> Figures:
    """Return the means over conversions, of which there should be at least one."""
    memory = [m.memory for m in measured if m.memory is not None]
    again = [m.again for m in measured if m.again is not None]
    half = [m.half for m in measured if m.half is not None]
    return Figures(
        conversions=len(measured),
        failed=sum(has_failed(m) for m in measured),
        stale=_mean([m.stale for m in measured]),
        converted=_mean([m.used for m in measured]),
        seconds=statistics.fmean(m.seconds for m in measured),
        memory=max(memory) if memory else None,
        again=_mean(again) if again else None,
        half=_mean(half) if half else None,
    )


def has_failed(measured: Measured) -> bool:
    """Return whether an update could not be converted, and was used as it came."""
    return "converted" not in measured.kinds


def _mean(errors: Sequence[Errors]) -> Errors:
    return Errors(
        **{f.name: statistics.fmean(getattr(e, f.name) for e in errors) for f in fields(Errors)}
    )


def _ratio(converted: float, stale: float) -> float:
    return converted / stale if stale > 0 else math.nan
