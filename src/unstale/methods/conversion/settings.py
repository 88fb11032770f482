"""The settings of the method `convert` beside those of the inversion, in groups.

Each group is a table of the same name in an experiment file, such as `[methods.switching]`.
"""

import math
from dataclasses import dataclass

from unstale.errors import ConfigError, UnknownNameError
from unstale.inversion.objective import disparity_of
from unstale.inversion.settings import PRESETS as INVERSION_PRESETS
from unstale.methods.conversion.uniqueness_rules import RULES

UNKNOWN = ("convert", "keep")
# The presets of the inversion as settings of the method.
PRESETS = {name: {"inversion": changes} for name, changes in INVERSION_PRESETS.items()}


@dataclass(frozen=True, slots=True)
class Uniqueness:
    """Which stale updates are converted: those that hold something the others do not.

    Example:
        >>> Uniqueness().factor, Uniqueness(rule="nearest").factor
        (1.0, 0.5)
    """

    enabled: bool = True
    """Whether only unique updates are converted; false converts every stale update."""
    threshold: float | None = None
    """An update is unique if its distance to the fresh updates of its version is above this
    many times their mean distance to each other. 1 for `mean`, 0.5 for `nearest` by default."""
    unknown: str = "convert"
    """What becomes of an update from a version without fresh updates: `convert` or `keep`."""
    rule: str = "mean"
    """Which distance is compared: `mean`, over all fresh updates of the version, as in the
    paper, or `nearest`, to the nearest one of at most 64."""

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise UnknownNameError("only_unique: `rule`", str(self.rule), RULES)
        if not (self.factor >= 0 and math.isfinite(self.factor)):
            raise ConfigError(
                "only_unique: `threshold` should be a number of at least 0. "
                f"Found {self.threshold!r}."
            )
        if self.unknown not in UNKNOWN:
            raise ConfigError(
                f"only_unique: `unknown` should be one of {UNKNOWN}. Found {self.unknown!r}."
            )

    @property
    def factor(self) -> float:
        """The threshold in use: as given, else the rule's own."""
        return RULES[self.rule].threshold if self.threshold is None else self.threshold


@dataclass(frozen=True, slots=True)
class Switching:
    """When a client's stale updates are used again because its estimates have become worse."""

    enabled: bool = True
    """Whether clients switch back at all; false uses estimates to the end."""
    window: float = 0.1
    """Rounds over which γ, the estimate's share, falls from 1 to 0, as a share of the rounds
    before the switch."""
    disparity: str = "cosine"
    """How an estimate is compared with the update that came later: `cosine`, `l1`, `l2`, or a
    sum such as `l1+cosine`."""
    patience: int = 2
    """Switch back after this many consecutive comparisons in which the estimate was worse."""
    keep: int = 1
    """How many estimates of one client wait for their comparison; each takes twice the model."""
    match_window: float = 0.1
    """How far after an estimate's version an update may start to be compared with it, as a
    share of the staleness and at least 1 version; 0 compares only updates from that version."""

    def __post_init__(self) -> None:
        disparity_of(self.disparity)
        for name in ("window", "match_window"):
            value = getattr(self, name)
            if not (value >= 0 and math.isfinite(value)):
                raise ConfigError(
                    f"switch_back: `{name}` should be a number of at least 0. Found {value!r}."
                )
        for name in ("patience", "keep"):
            _require_positive("switch_back", name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class Budget:
    """How much work and memory conversions may take."""

    max_conversions: int | None = None
    """The most conversions in one round, the stalest first; the others are used as they came.
    No bound when not given."""
    round_seconds: float | None = None
    """Seconds that one round's conversions may take together; no bound when not given. With a
    bound results depend on the machine."""
    max_clients: int = 1000
    """How many clients are remembered: surrogates and past updates of those converted last."""

    def __post_init__(self) -> None:
        if self.max_conversions is not None:
            _require_positive("budget", "max_conversions", self.max_conversions)
        _require_positive("budget", "max_clients", self.max_clients)
        if self.round_seconds is not None and not self.round_seconds > 0:
            raise ConfigError(
                f"budget: `round_seconds` should be above 0. Found {self.round_seconds!r}."
            )


def _require_positive(where: str, name: str, value: object) -> None:
    if type(value) is not int or value < 1:
        raise ConfigError(f"{where}: `{name}` should be a positive integer. Found {value!r}.")
