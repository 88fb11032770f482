"""What a run folder tells of conversions, as frozen records."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Converted:
    """One stale update that was converted."""

    client: str
    """Who sent it; foreign text."""
    loss: float | None
    """What the fit reached."""
    iterations: int
    """How many iterations it took."""
    warm: bool
    """Whether it began with the surrogate of the client's last conversion."""
    curve: tuple[tuple[int, float], ...] = ()
    """Some iterations and the loss at each; only some conversions have one."""


@dataclass(frozen=True, slots=True)
class Measured:
    """An earlier estimate, compared with the client's own update that came later."""

    client: str
    """Whose; foreign text."""
    estimate_error: float | None
    """How far the estimate was from it."""
    stale_error: float | None
    """How far the stale update was that was at hand then."""


@dataclass(frozen=True, slots=True)
class SurrogateSamples:
    """Some samples of the surrogate that a method kept of one client."""

    client: str
    """Whose; foreign text."""
    shape: tuple[int, ...]
    """The shape of one input."""
    low: float
    """The value that is drawn darkest."""
    high: float
    """The value that is drawn brightest."""
    samples: int
    """How many there are; not all are in the file."""
    x: tuple[tuple[float, ...], ...]
    """Inputs, each as one row of values."""
    labels: tuple[tuple[float, ...], ...]
    """Soft labels, one for each input."""
