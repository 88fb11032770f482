"""Uniqueness: only updates that hold something the others do not are compensated.

By which distance that is decided: `uniqueness_rules.py`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from unstale.methods.base import Compensator, check_inner, in_order, is_kept
from unstale.methods.conversion.settings import Uniqueness
from unstale.methods.conversion.uniqueness_rules import RULES, Rule
from unstale.updates import Note, Outcome, ServerView, State, Update


@dataclass(frozen=True, slots=True)
class OnlyUnique:
    """Compensates only unique updates; made by `only_unique`.

    Memory, for each version that the history keeps and that had fresh updates: one vector
    of the model's size for the rule `mean`; for `nearest` at most 64 sketches of 8 kB, and
    once 4 bytes for each weight of a model of more than 2048.
    """

    inner: Compensator
    """What is done to unique updates."""
    settings: Uniqueness = field(default_factory=Uniqueness)
    """What counts as unique; `enabled` is for `Convert` and has no meaning here."""

    def __post_init__(self) -> None:
        check_inner("only_unique", self.inner)

    @property
    def lookback(self) -> int:
        """What the inner one reads."""
        return self.inner.lookback

    def init(self) -> State:
        """Return the inner memory, and nothing of any version."""
        return {"inner": self.inner.init(), self._rule.key: {}}

    def parts(self, state: State) -> Sequence[tuple[Compensator, State]]:
        """Return the inner one."""
        return [(self.inner, state["inner"])]

    def reached_by(
        self, update: Update, state: State, view: ServerView
    ) -> Iterator[tuple[Compensator, State]]:
        """Yield the inner one for a unique update."""
        kept = state.get(self._rule.key, {}).get(str(update.base_version))
        if self._common(update, kept) is None:
            yield self.inner, state["inner"]

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Hand unique and fresh updates to the inner one; pass the others as they came."""
        rule = self._rule
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

    @property
    def _rule(self) -> Rule:
        return RULES[self.settings.rule]

    def _common(self, update: Update, kept: Tensor | None) -> Note | None:
        """Return a note if the update holds nothing special, else None."""
        if kept is None:
            if self.settings.unknown == "convert":
                return None
            why = {"reason": "no fresh updates of its version"}
            return Note("kept", update.client_id, update.base_version, why)
        distance, others = self._rule.distances(update.delta, kept)
        if distance > self.settings.factor * others:
            return None
        detail = {"distance": distance, "threshold": self.settings.factor * others}
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
        threshold: An update is unique if its distance to the fresh updates of its version is
            above this many times their mean distance to each other; 1 for the rule `mean`
            and 0.5 for `nearest` when not given.
        unknown: What becomes of updates from versions without fresh ones: `convert` or `keep`.
        rule: The distance: `mean`, to all fresh updates, as in the paper, or `nearest`, to
            the nearest of them, by which a class that few others hold is not unique.

    Example:
        >>> from unstale.methods import FirstOrder
        >>> only_unique(FirstOrder(), rule="nearest").settings.factor
        0.5

    References:
        Wang and Gao, Tackling Intertwined Data and Device Heterogeneities in Federated
        Learning with Unlimited Staleness, on protecting clients' data privacy.
    """
    return OnlyUnique(inner, Uniqueness(threshold=threshold, unknown=unknown, rule=rule))
