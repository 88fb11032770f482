"""Uniqueness: only updates that hold something the others do not are compensated.

By which distance that is decided: `uniqueness_rules.py`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from unstale.errors import ConfigError, UnknownNameError
from unstale.inversion import Surrogate
from unstale.methods.base import Compensator, surrogates_of
from unstale.methods.conversion.prefit import Preparation, preparation_of
from unstale.methods.conversion.uniqueness_rules import RULES
from unstale.methods.wrapping import check_inner, in_order, is_kept
from unstale.updates import Note, Outcome, ServerView, State, Update

UNKNOWN = ("convert", "keep")


@dataclass(frozen=True, slots=True)
class OnlyUnique:
    """Compensates only unique updates; made by `only_unique`.

    Memory, for each version that the history keeps and that had unstale updates: one vector
    of the model's size for the rule `mean`; for `nearest` at most 64 sketches of 8 kB, and
    once 4 bytes for each weight of a model of more than 2048.
    """

    inner: Compensator
    """What is done to unique updates."""
    threshold: float | None = None
    """By how many times its distance should be above the others' mean one among themselves;
    when not given 1 for the rule `mean` and 0.5 for `nearest`."""
    unknown: str = "convert"
    """What becomes of an update from a version without unstale updates: `convert` or `keep`."""
    rule: str = "mean"
    """Which distance that is: `mean`, over all unstale updates of its version, as in the paper,
    or `nearest`, to the nearest one of at most 64."""

    def __post_init__(self) -> None:
        check_inner("only_unique", self.inner)
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

    @property
    def lookback(self) -> int:
        """What the inner one reads."""
        return self.inner.lookback

    def init(self) -> State:
        """Return the inner memory, and nothing of any version."""
        return {"inner": self.inner.init(), RULES[self.rule].key: {}}

    def surrogates(self, state: State) -> dict[str, Surrogate]:
        """Return those of the inner one."""
        return surrogates_of(self.inner, state["inner"])

    def prepare(self, update: Update, state: State, view: ServerView) -> Preparation | None:
        """Return what the inner one prepares for a unique update; nothing for others."""
        kept = state.get(RULES[self.rule].key, {}).get(str(update.base_version))
        if self._common(update, kept) is not None:
            return None
        return preparation_of(self.inner, update, state["inner"], view)

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Hand unique and fresh updates to the inner one; pass the others as they came."""
        rule = RULES[self.rule]
        others: dict[str, Tensor] = {
            version: kept
            for version, kept in state.get(rule.key, {}).items()
            if is_kept(view, int(version))
        }
        passed: list[Update] = []
        given: list[Update] = []
        notes: list[Note] = []
        for update in updates:
            note = None
            if update.staleness(view.version) > 0:
                note = self._common(update, others.get(str(update.base_version)))
            if note is None:
                given.append(update)
            else:
                passed.append(update)
                notes.append(note)
        fresh = [u.delta for u in updates if u.staleness(view.version) == 0]
        if fresh:
            others[str(view.version)] = rule.remember(fresh)
        outcome = self.inner.apply(given, state["inner"], view)
        return Outcome(
            in_order([*outcome.updates, *passed], updates),
            {"inner": outcome.state, rule.key: others},
            (*notes, *outcome.notes),
        )

    def _common(self, update: Update, kept: Tensor | None) -> Note | None:
        """Return a note if the update holds nothing special, else None."""
        if kept is None:
            if self.unknown == "convert":
                return None
            why = {"reason": "no unstale updates of its version"}
            return Note("kept", update.client_id, update.base_version, why)
        distance, others = RULES[self.rule].distances(update.delta, kept)
        if distance > self.factor * others:
            return None
        detail = {"distance": distance, "threshold": self.factor * others}
        return Note("kept", update.client_id, update.base_version, detail)


def only_unique(
    inner: Compensator,
    threshold: float | None = None,
    unknown: str = "convert",
    rule: str = "mean",
) -> OnlyUnique:
    """Return the compensator that applies `inner` to unique updates only.

    Args:
        inner: What is done to unique updates.
        threshold: By how many times an update's distance should be above the mean one among
            unstale updates; 1 for the rule `mean` and 0.5 for `nearest` when not given.
        unknown: What becomes of updates from versions without unstale ones: `convert` or `keep`.
        rule: The distance: `mean`, to all unstale updates, as in the paper, or `nearest`, to
            the nearest of them, which does not take what few others hold for unique.

    Example:
        >>> from unstale.methods import FirstOrder
        >>> only_unique(FirstOrder()).factor, only_unique(FirstOrder(), rule="nearest").factor
        (1.0, 0.5)

    References:
        Wang and Gao, Tackling Intertwined Data and Device Heterogeneities in Federated
        Learning with Unlimited Staleness, on protecting clients' data privacy.
    """
    return OnlyUnique(inner, threshold, unknown, rule)
