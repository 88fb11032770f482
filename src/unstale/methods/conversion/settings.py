"""Groups of settings of the method `convert`, besides `Inversion`.

In an experiment file each group is a table, such as `[methods.switching]`.
"""

import math
from dataclasses import dataclass
from typing import Any

from unstale.errors import ConfigError, UnknownNameError
from unstale.inversion.objective import disparity_of
from unstale.inversion.settings import PRESETS as INVERSION_PRESETS
from unstale.methods.conversion.uniqueness_rules import RULES

UNKNOWN = ("convert", "keep")
# The presets of the inversion as settings of the method. The paper stands in for nobody, and uses
# estimates as they are.
PRESETS = {name: {"inversion": changes} for name, changes in INVERSION_PRESETS.items()}
for _name in ("paper", "paper_dense"):
    PRESETS[_name] |= {
        "stand_in": {"enabled": False},
        "calibration": {"enabled": False},
        "recipe_check": {"enabled": False},
    }
# Variants of the inversion that calibration can try: what each of them changes.
CANDIDATES: dict[str, dict[str, Any]] = {
    "one_update": {"history": 1},
    "four_updates": {"history": 4},
    "gaussian": {"start": "gaussian"},
    "grey": {"start": "grey"},
    "sparse": {"sparsity": 0.8},
    "dense": {"sparsity": 0.0},
    "hard": {"labels": "hard"},
    "longer": {"iterations": 300, "warm_iterations": 50},
}


@dataclass(frozen=True, slots=True)
class Uniqueness:
    """Which stale updates are converted: those that differ from the fresh ones.

    An update is unique if its cosine distance to the fresh updates of its base version is
    larger than `threshold` times their mean distance to each other.

    Example:
        >>> Uniqueness().factor, Uniqueness(rule="nearest").factor
        (1.0, 0.5)
    """

    enabled: bool = True
    """Whether only unique updates are converted; false converts all stale updates."""
    threshold: float | None = None
    """An update is unique if its distance to the fresh updates of its base version is above this
    many times their mean distance to each other. Default: 1 for `mean`, 0.5 for `nearest`."""
    unknown: str = "convert"
    """What to do with an update whose base version had no fresh updates: `convert` it, or `keep`
    it unchanged."""
    rule: str = "mean"
    """The distance that is compared: `mean`, to all fresh updates of the base version (as in
    the paper), or `nearest`, to the nearest of at most 64 of them."""

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
        """The threshold in use: the given one, or the default of the rule."""
        return RULES[self.rule].threshold if self.threshold is None else self.threshold


@dataclass(frozen=True, slots=True)
class Switching:
    """When a client's stale updates are used again, since its estimates have become worse."""

    enabled: bool = True
    """Whether clients can switch back; false always uses estimates."""
    window: float = 0.1
    """Number of rounds in which γ, the share of the estimate, falls from 1 to 0, as a share of
    the rounds before the switch."""
    disparity: str = "cosine"
    """Distance between an estimate and the true update that arrives later: `cosine`, `l1`,
    `l2`, or a sum such as `l1+cosine`."""
    patience: int = 2
    """Switch back after this many consecutive comparisons in which the estimate was worse."""
    keep: int = 1
    """Maximum number of estimates per client that are kept for comparison; each takes twice the
    size of the model."""
    match_window: float = 0.1
    """An estimate for version t is compared with an update from version t to t + `match_window`
    times the staleness (at least t + 1); 0 requires exactly version t."""
    at: int | None = None
    """The version at which all clients switch back, whatever comparisons say; for studies of the
    switching point. If not given, each client switches back by its own comparisons."""

    def __post_init__(self) -> None:
        disparity_of(self.disparity)
        if self.at is not None and (type(self.at) is not int or self.at < 0):
            raise ConfigError(
                "switch_back: `at` should be a version (an integer of at least 0), or not given. "
                f"Found {self.at!r}."
            )
        for name in ("window", "match_window"):
            value = getattr(self, name)
            if not (value >= 0 and math.isfinite(value)):
                raise ConfigError(
                    f"switch_back: `{name}` should be a number of at least 0. Found {value!r}."
                )
        for name in ("patience", "keep"):
            _require_positive("switch_back", name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class StandIn:
    """When the server stands in for a client that the round drew but that is at work or away.

    A stand-in is what training the current model on the client's surrogate changes. The
    client's next update shows how good it was; weight and size of later ones follow from that.

    Example:
        >>> StandIn(max_age=200).checked
        True
    """

    enabled: bool = True
    """Whether absent clients are stood in for; false only converts what arrives, as in the
    paper."""
    max_age: int = 1000
    """Maximum age of a stand-in: versions since the one that the client's newest known update was
    trained from. Older ones are not used."""
    checked: bool = True
    """Whether weight and size of a client's stand-ins follow from what its own updates showed of
    earlier ones: they weigh less the older they are where those proved wrong, and are scaled up
    where those proved too small. False uses all of them as they are."""
    max_scale: float = 2.0
    """The factor up to which stand-ins are scaled up; 1 never does."""

    def __post_init__(self) -> None:
        _require_positive("stand_in", "max_age", self.max_age)
        if not (self.max_scale >= 1 and math.isfinite(self.max_scale)):
            raise ConfigError(
                "stand_in: `max_scale` should be a number of at least 1, which never scales up. "
                f"Found {self.max_scale!r}."
            )


@dataclass(frozen=True, slots=True)
class Calibration:
    """How far estimates are trusted, by those that the server could check; see `calibration.py`.

    The server fits surrogates to updates of some fast clients too, the *probes*. The next
    fresh updates of a probe show how good its conversions would be, from the first rounds on.

    Example:
        >>> Calibration(probes=2, candidates=["gaussian"]).candidates
        ('gaussian',)
    """

    enabled: bool = True
    """Whether an update that is used lies between the stale one and the estimate, as far as earlier
    estimates proved right; false uses estimates as they are, as in the paper."""
    probes: int = 4
    """Maximum number of fast clients that are probes at a time; 0 learns from slow clients
    alone, once their true updates have arrived."""
    cost: float = 0.25
    """Maximum number of probes' fits, as a share of the conversions so far; each probe's first fit
    comes on top."""
    renew: int = 50
    """Versions after which a probe is fitted anew while nothing stale has arrived; afterwards 1.2
    times the largest staleness of late."""
    caution: float = 1.0
    """Number of comparisons that `prior_share` counts as."""
    prior_share: float = 0.5
    """Share of the estimate in what is used while nothing is known, from 0 (the stale update) to 1
    (the estimate)."""
    doubt: float = 2.0
    """How many times as large the squared error of another client's estimate counts; 1 believes
    that estimates for all clients are equally good."""
    candidates: tuple[str, ...] = ()
    """Variants of the inversion that probes try beside it; conversions use the one with the least
    error. A name or several of: `one_update`, `four_updates` (`history`), `gaussian`, `grey`
    (`start`), `sparse`, `dense` (`sparsity`), `hard` (`labels`), `longer` (up to 300 iterations in
    a first fit and 50 in later ones)."""

    def __post_init__(self) -> None:
        given = self.candidates
        names = (given,) if isinstance(given, str) else tuple(given)
        object.__setattr__(self, "candidates", names)
        for name in names:
            if name not in CANDIDATES:
                raise UnknownNameError("calibration: a name in `candidates`", name, CANDIDATES)
        if len(set(names)) < len(names):
            raise ConfigError(
                f"calibration: `candidates` should name each once. Found {list(names)!r}."
            )
        if type(self.probes) is not int or self.probes < 0:
            raise ConfigError(
                f"calibration: `probes` should be an integer of at least 0. Found {self.probes!r}."
            )
        _require_positive("calibration", "renew", self.renew)
        for name in ("cost", "caution"):
            value = getattr(self, name)
            if not (value >= 0 and math.isfinite(value)):
                raise ConfigError(
                    f"calibration: `{name}` should be a number of at least 0. Found {value!r}."
                )
        if not (self.doubt >= 1 and math.isfinite(self.doubt)):
            raise ConfigError(
                f"calibration: `doubt` should be a number of at least 1. Found {self.doubt!r}."
            )
        if not 0 <= self.prior_share <= 1:
            raise ConfigError(
                f"calibration: `prior_share` should be from 0 to 1. Found {self.prior_share!r}."
            )


@dataclass(frozen=True, slots=True)
class RecipeCheck:
    """Whether the server checks that fast clients train by its recipe; see `recipe_check.py`.

    A client that does not is reported once, by a warning in the log and in the round's line.
    Nothing else changes. Each check takes four small fits, less than one conversion, and four
    longer ones for a client that seems to deviate.

    Example:
        >>> RecipeCheck(clients=2).enabled
        True
    """

    enabled: bool = True
    """Whether clients are checked."""
    clients: int = 4
    """Maximum number of clients that are checked in a run. Those whose updates are longest or
    shortest for their round come first."""

    def __post_init__(self) -> None:
        _require_positive("recipe_check", "clients", self.clients)


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on the time and memory of conversions.

    Memory, for each of `max_clients` clients: a surrogate and, with `Inversion.history` = h, its
    last h−1 stale updates. Base weights are kept once for all clients, at most one version
    for each of these updates. With the default h = 4, ten slow clients of a ResNet-18 that
    start from the same versions take 1.5 GB, of a LeNet 2.9 MB.
    """

    max_conversions: int | None = None
    """Maximum number of conversions in a round, the stalest updates first; others are used
    unchanged. No limit if not given."""
    round_seconds: float | None = None
    """Maximum seconds of all conversions of a round; no limit if not given. With a limit,
    results depend on the speed of the machine."""
    max_clients: int = 1000
    """Maximum number of clients whose surrogates and past updates are kept: those with a
    surrogate first, then those heard of last."""

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
