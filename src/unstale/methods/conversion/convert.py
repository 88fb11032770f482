"""The method `convert`: conversion of unique updates, until it stops helping."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from unstale.errors import ConfigError
from unstale.inversion import Inversion
from unstale.methods.base import Compensator
from unstale.methods.conversion.convert_all import ConvertAll
from unstale.methods.conversion.settings import Budget, Switching, Uniqueness
from unstale.methods.conversion.switching import SwitchBack
from unstale.methods.conversion.uniqueness import OnlyUnique
from unstale.updates import Outcome, ServerView, State, Update

_GROUPS = {
    "inversion": Inversion,
    "uniqueness": Uniqueness,
    "switching": Switching,
    "budget": Budget,
}


@dataclass(frozen=True, slots=True)
class Convert:
    """Turns a stale update into the one that its client would send today.

    The server fits a surrogate, a small data set whose training from the update's base
    gives the stale update, and trains the current model on it. Only unique updates are
    converted (`uniqueness`), and a client goes back to its stale updates once its
    estimates have become worse than those (`switching`). Needs `Server(inputs=...)`.

    It is `switch_back(only_unique(ConvertAll(...)))`: the switch also sees updates that are
    not unique, since they too tell how good an earlier estimate was.

    Example:
        >>> method = Convert(inversion=Inversion(sparsity=0), switching=Switching(patience=3))
        >>> type(method.composed).__name__
        'SwitchBack'

    References:
        Wang and Gao, Tackling Intertwined Data and Device Heterogeneities in Federated
        Learning with Unlimited Staleness.
    """

    inversion: Inversion = field(default_factory=Inversion)
    """How surrogates are fitted."""
    uniqueness: Uniqueness = field(default_factory=Uniqueness)
    """Which stale updates are converted."""
    switching: Switching = field(default_factory=Switching)
    """When a client's stale updates are used again."""
    budget: Budget = field(default_factory=Budget)
    """How much work and memory conversions may take."""
    warm_start: bool = True
    """Whether a client's surrogate is kept and improved when its next update comes."""
    max_growth: float = 10.0
    """An estimate more than this many times as large as the stale update is not used; 0: any is."""
    fallback: str = "keep"
    """What becomes of an update whose base weights are gone: `keep` or `drop`."""

    def __post_init__(self) -> None:
        for name, group in _GROUPS.items():
            if not isinstance(value := getattr(self, name), group):
                raise ConfigError(
                    f"Convert: `{name}` should be {group.__name__}(...). Found {value!r}."
                )
        _ = self.composed  # runs the checks of the parts

    @property
    def composed(self) -> Compensator:
        """The parts, one around the other."""
        parts: Compensator = ConvertAll(
            self.inversion, self.budget, self.warm_start, self.max_growth, self.fallback
        )
        if self.uniqueness.enabled:
            parts = OnlyUnique(parts, self.uniqueness)
        if self.switching.enabled:
            parts = SwitchBack(parts, self.switching)
        return parts

    @property
    def lookback(self) -> int:
        """What the parts read."""
        return self.composed.lookback

    def init(self) -> State:
        """Return the parts' memory."""
        return self.composed.init()

    def parts(self, state: State) -> Sequence[tuple[Compensator, State]]:
        """Return the composed parts, whose memory is this one's own."""
        return [(self.composed, state)]

    def reached_by(
        self, update: Update, state: State, view: ServerView
    ) -> Iterator[tuple[Compensator, State]]:
        """Yield the composed parts: they get every update."""
        yield self.composed, state

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Hand the round to the parts."""
        return self.composed.apply(updates, state, view)
