"""Uniqueness: only updates that differ enough from the fresh ones are compensated.

The distances that decide this are in `uniqueness_rules.py`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from unstale.methods.absence import stood_in_for, without_absent
from unstale.methods.base import Compensator, check_inner, in_order, is_kept
from unstale.methods.conversion.settings import Uniqueness
from unstale.methods.conversion.uniqueness_rules import RULES, Rule
from unstale.methods.watching import watched
from unstale.updates import Note, Outcome, ServerView, State, Update


@dataclass(frozen=True, slots=True)
class OnlyUnique:
    """Compensates unique updates only; made by `only_unique`.

    Memory, for each version in the history that had fresh updates: for the rule `mean` one
    vector of the model's size; for `nearest` at most 64 sketches of 8 kB. `nearest` also
    needs, once, 4 bytes per weight if the model has more than 2048 weights.
    """

    inner: Compensator
    """The compensator of unique updates."""
    settings: Uniqueness = field(default_factory=Uniqueness)
    """Which updates are unique; `enabled` is read by `Convert` only."""

    def __post_init__(self) -> None:
        check_inner("only_unique", self.inner)

    @property
    def lookback(self) -> int:
        """The lookback of `inner`."""
        return self.inner.lookback

    def init(self) -> State:
        """Return the state of `inner`, and no versions."""
        return {"inner": self.inner.init(), self._rule.key: {}, "common": []}

    def parts(self, state: State) -> Sequence[tuple[Compensator, State]]:
        """Return `inner` with its state."""
        return [(self.inner, state["inner"])]

    def reached_by(
        self, update: Update, state: State, view: ServerView
    ) -> Iterator[tuple[Compensator, State]]:
        """Yield `inner` if the update is unique."""
        kept = state.get(self._rule.key, {}).get(str(update.base_version))
        if self._common(update, kept) is None:
            yield self.inner, state["inner"]

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Apply `inner` to unique and fresh updates; return the others unchanged."""
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
        fresh = [u.delta for u in updates if u.staleness(view.version) == 0 and not u.stand_in]
        if fresh:
            others[str(view.version)] = rule.remember(fresh)
        common = self._common_clients(state, given, passed, view)
        inner_view = without_absent(view, common.__contains__)
        # `inner` may remember what it is not asked to change.
        inner = watched(self.inner, passed, state["inner"], view)
        outcome = self.inner.apply(given, inner, inner_view)
        return Outcome(
            in_order([*outcome.updates, *passed], updates),
            {"inner": outcome.state, rule.key: others, "common": sorted(common)},
            (*notes, *outcome.notes),
        )

    def watch(self, updates: Sequence[Update], state: State, view: ServerView) -> State:
        """Show updates that pass by to `inner`."""
        return {**state, "inner": watched(self.inner, updates, state["inner"], view)}

    def stands_in_for(self, state: State, version: int) -> frozenset[str]:
        """Return the clients that `inner` would stand in for and whose last update was unique."""
        return stood_in_for(self.inner, state["inner"], version) - {*state.get("common", [])}

    def _common_clients(
        self,
        state: State,
        given: Sequence[Update],
        passed: Sequence[Update],
        view: ServerView,
    ) -> set[str]:
        """Return the clients whose last stale update was not unique: others speak for them."""
        unique = {u.client_id for u in given if u.staleness(view.version) > 0}
        return ({*state.get("common", [])} - unique) | {u.client_id for u in passed}

    @property
    def _rule(self) -> Rule:
        return RULES[self.settings.rule]

    def _common(self, update: Update, kept: Tensor | None) -> Note | None:
        """Return a note if the update is not unique, else None."""
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
    """Return a compensator that applies `inner` to unique updates only.

    Args:
        inner: The compensator of unique updates.
        threshold: An update is unique if its distance to the fresh updates of its base version
            is above this many times their mean distance to each other. Default: 1 for the
            rule `mean`, 0.5 for `nearest`.
        unknown: What to do with an update whose base version had no fresh updates: `convert`
            it, or `keep` it unchanged.
        rule: The distance: `mean`, to all fresh updates (as in the paper), or `nearest`, to
            the nearest one, so that one client with similar data makes an update common.

    Example:
        >>> from unstale.methods import FirstOrder
        >>> only_unique(FirstOrder(), rule="nearest").settings.factor
        0.5

    References:
        Wang and Gao, Tackling Intertwined Data and Device Heterogeneities in Federated
        Learning with Unlimited Staleness, on protecting clients' data privacy.
    """
    return OnlyUnique(inner, Uniqueness(threshold=threshold, unknown=unknown, rule=rule))
