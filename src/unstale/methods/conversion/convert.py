"""The method `convert`: conversion of what is unique, until it stops helping."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from unstale.inversion import Surrogate
from unstale.methods.base import Compensator, surrogates_of
from unstale.methods.conversion.convert_all import ConvertAll
from unstale.methods.conversion.prefit import Preparation, preparation_of
from unstale.methods.conversion.switching import SwitchBack
from unstale.methods.conversion.uniqueness import OnlyUnique
from unstale.updates import Outcome, ServerView, State, Update


@dataclass(frozen=True, slots=True)
class Convert(ConvertAll):
    """`switch_back(only_unique(ConvertAll(...)))` with all settings side by side.

    In this order the switch also sees the updates that are not unique: they too tell
    how good an earlier estimate was.

    Example:
        >>> type(Convert(unique=False, switch=False).composed).__name__
        'ConvertAll'
    """

    unique: bool = True
    """Whether only updates that hold something special are converted."""
    unique_threshold: float | None = None
    """How many times as far from the others as they are from each other an update should be;
    when not given 1 for the rule `mean` and 0.5 for `nearest`."""
    unique_unknown: str = "convert"
    """What becomes of an update from a version without unstale updates: `convert` or `keep`."""
    unique_rule: str = "mean"
    """How far an update is from the others: `mean`, over all of them as in the paper, or
    `nearest`, from the nearest, which does not take what few others hold for unique."""
    switch: bool = True
    """Whether a client's stale updates are used again once estimates have become worse."""
    switch_window: float = 0.1
    """The rounds over which it goes from one to the other, as a share of the rounds before."""
    switch_disparity: str = "cosine"
    """How late truth is compared with estimates: `cosine`, `l1` or `l2`."""
    switch_patience: int = 2
    """So many findings in a row that the estimate was worse make it switch."""
    switch_keep: int = 1
    """How many estimates of a client wait for their truth at once, of twice the model each."""
    switch_match_window: float = 0.1
    """How far after an estimate's version an update may begin to be taken for its truth, as
    a share of the staleness; 0: only from that version."""

    def __post_init__(self) -> None:
        ConvertAll.__post_init__(self)
        _ = self.composed  # their own checks

    @property
    def composed(self) -> Compensator:
        """The parts, one around the other."""
        own = {field.name: getattr(self, field.name) for field in dataclasses.fields(ConvertAll)}
        parts: Compensator = ConvertAll(**own)
        if self.unique:
            parts = OnlyUnique(parts, self.unique_threshold, self.unique_unknown, self.unique_rule)
        if self.switch:
            parts = SwitchBack(
                parts,
                self.switch_window,
                self.switch_disparity,
                self.switch_patience,
                self.switch_keep,
                self.switch_match_window,
            )
        return parts

    @property
    def lookback(self) -> int:
        """What the parts read."""
        return self.composed.lookback

    def init(self) -> State:
        """Return the parts' memory."""
        return self.composed.init()

    def surrogates(self, state: State) -> dict[str, Surrogate]:
        """Return those of the parts."""
        return surrogates_of(self.composed, state)

    def prepare(self, update: Update, state: State, view: ServerView) -> Preparation | None:
        """Return what the parts prepare."""
        return preparation_of(self.composed, update, state, view)

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Hand the round to the parts."""
        return self.composed.apply(updates, state, view)
