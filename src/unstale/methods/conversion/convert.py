"""`Convert`, the compensator of the method `convert`."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from unstale.errors import ConfigError
from unstale.inversion import Inversion
from unstale.methods.base import Compensator
from unstale.methods.conversion.convert_all import ConvertAll
from unstale.methods.conversion.in_groups import InGroups
from unstale.methods.conversion.recipe_check import check_recipe
from unstale.methods.conversion.settings import (
    Budget,
    Calibration,
    RecipeCheck,
    StandIn,
    Switching,
    Uniqueness,
)
from unstale.methods.conversion.switching import SwitchBack
from unstale.methods.conversion.uniqueness import OnlyUnique
from unstale.methods.groups import with_enabled
from unstale.methods.watching import watched
from unstale.updates import Outcome, ServerView, State, Update

_GROUPS = {
    "inversion": Inversion,
    "uniqueness": Uniqueness,
    "switching": Switching,
    "stand_in": StandIn,
    "calibration": Calibration,
    "budget": Budget,
    "recipe_check": RecipeCheck,
}

# The part of the state that belongs to the check of the recipe.
_RECIPES = "recipes"


@dataclass(frozen=True, slots=True)
class Convert:
    """Converts a stale update into an estimate of the update its client would send today.

    The server fits a surrogate: a small data set on which training from the update's base
    version gives the stale update. Training the current model on the surrogate gives the
    estimate. What is used lies between the two, as far as earlier estimates proved right
    (`calibration`). Only unique updates are converted (`uniqueness`), and a client's stale
    updates are used again once its estimates have become worse than those (`switching`). While a
    client is absent, the current model is trained on its surrogate in its place
    (`stand_in`). Needs `Server(inputs=...)`.

    `Convert(...)` is `switch_back(only_unique(ConvertAll(...)))`. `switch_back` is outermost
    because updates that are not unique also show how good an earlier estimate was. A group
    that can be turned off also takes a bool.

    Example:
        >>> method = Convert(inversion=Inversion(sparsity=0), switching=Switching(patience=3))
        >>> type(method.composed).__name__
        'SwitchBack'
        >>> Convert(stand_in=False).stand_in.enabled
        False

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
    stand_in: StandIn = field(default_factory=StandIn)
    """When the server stands in for a client that is at work or away."""
    calibration: Calibration = field(default_factory=Calibration)
    """How far estimates are trusted."""
    budget: Budget = field(default_factory=Budget)
    """Limits on the time and memory of conversions."""
    recipe_check: RecipeCheck = field(default_factory=RecipeCheck)
    """Whether the server checks that clients train by its recipe."""
    warm_start: bool = True
    """Whether the fit to a client's next update starts from its last surrogate."""
    max_growth: float = 10.0
    """The stale update is used instead of an estimate whose norm is more than this many times
    the stale update's; 0 for no limit."""
    fallback: str = "keep"
    """What to do with an update whose base version is no longer stored: `keep` (use it unchanged)
    or `drop`."""
    group_size: int = 0
    """Late updates of one base version are converted as sums of this many clients, as secure
    aggregation would give them; fresh updates are then not looked at. 0 converts each on its
    own."""

    def __post_init__(self) -> None:
        for name, group in _GROUPS.items():
            value = getattr(self, name)
            if (table := with_enabled(group, value)) is not value:  # a bool
                object.__setattr__(self, name, group(**table))
            elif not isinstance(value, group):
                raise ConfigError(
                    f"Convert: `{name}` should be {group.__name__}(...). Found {value!r}."
                )
        if type(self.group_size) is not int or self.group_size < 0:
            raise ConfigError(
                "Convert: `group_size` should be an integer of at least 0. "
                f"Found {self.group_size!r}."
            )
        _ = self.composed  # the parts check their settings

    @property
    def composed(self) -> Compensator:
        """The compensator that this one stands for: the enabled parts, nested."""
        parts: Compensator = ConvertAll(
            self.inversion,
            self.stand_in,
            self.calibration,
            self.budget,
            self.warm_start,
            self.max_growth,
            self.fallback,
        )
        if self.uniqueness.enabled:
            parts = OnlyUnique(parts, self.uniqueness)
        if self.switching.enabled:
            parts = SwitchBack(parts, self.switching)
        return InGroups(parts, self.group_size) if self.group_size else parts

    @property
    def lookback(self) -> int:
        """The lookback of the composed compensator."""
        return self.composed.lookback

    def init(self) -> State:
        """Return the state of the composed compensator."""
        return self.composed.init()

    def parts(self, state: State) -> Sequence[tuple[Compensator, State]]:
        """Return the composed compensator; it shares this one's state."""
        return [(self.composed, state)]

    def reached_by(
        self, update: Update, state: State, view: ServerView
    ) -> Iterator[tuple[Compensator, State]]:
        """Yield the composed compensator, which receives every update."""
        yield self.composed, state

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Apply the composed compensator, and check the recipe of some fast clients."""
        outcome = self.composed.apply(updates, state, view)
        if not self.recipe_check.enabled or self.group_size:  # of sums nobody is known
            return outcome
        book, notes = check_recipe(
            updates, state.get(_RECIPES), view, self.recipe_check, self.inversion
        )
        after = {**outcome.state, _RECIPES: book}
        return dataclasses.replace(outcome, state=after, notes=(*outcome.notes, *notes))

    def watch(self, updates: Sequence[Update], state: State, view: ServerView) -> State:
        """Show updates that pass by to the composed compensator."""
        return watched(self.composed, updates, state, view)
