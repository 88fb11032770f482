r"""Switching back: from estimates to stale updates once estimates have stopped helping.

Late in training the model hardly moves any more, and the error of an estimate
outgrows that of the stale update itself. Whether it has is known later: when the
client's own update from version t comes, the estimate made for version t
($E_1$ = its disparity to that truth) is compared with the stale update that was at
hand then ($E_2$). After `patience` consecutive comparisons with $E_1 > E_2$ the client
switches; the version of that moment is its switching point $t_s$. From then on its updates are

$$ \gamma\,e + (1-\gamma)\,s, \qquad \gamma = 1 - \frac{t - t_s}{a\,t_s}, $$

with the estimate e, the stale update s, and the window a = 0.1: γ falls to 0 within a tenth
of the rounds before the switch, and stays there.

Only what the server received is used. A client that works on one model at a time starts its
next work a little after its update came, so that nobody ever trains from version t itself.
So an update that starts up to `match_window` after t is compared instead; both sides of the
comparison are judged by the same update. Where the stale update was awaiting its fit, the
client's next work started before t; then an update from that long before t counts too, but
never from further away than the match window.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unstale.inversion.objective import disparity_of
from unstale.methods.base import Compensator, check_inner, in_order, is_kept
from unstale.methods.conversion.settings import Switching
from unstale.params import Params, add, flatten, scale
from unstale.updates import Note, Outcome, ServerView, State, Update

# `estimates` (each with `version`, `until`, `estimate`, `stale`, and `first` where that is
# below `version`), `worse` (findings in a row), `switched` (t_s or None) and `newest` (the
# newest base version that arrived)
Entry = Mapping[str, Any]
_NEW: Entry = {"estimates": [], "worse": 0, "switched": None, "newest": -1}


@dataclass(frozen=True, slots=True)
class SwitchBack:
    """Goes back to stale updates where compensation has stopped helping; made by `switch_back`.

    Memory: for each client that works for the server, at most `keep` pairs of updates.
    """

    inner: Compensator
    """What makes estimates."""
    settings: Switching = field(default_factory=Switching)
    """When to switch; `enabled` is for `Convert` and has no meaning here."""

    def __post_init__(self) -> None:
        check_inner("switch_back", self.inner)

    @property
    def lookback(self) -> int:
        """What the inner one reads."""
        return self.inner.lookback

    def init(self) -> State:
        """Return the inner memory, and no clients."""
        return {"inner": self.inner.init(), "clients": {}}

    def gamma(self, switched: int | None, version: int) -> float:
        """Return γ, the estimate's share, at a version.

        Args:
            switched: The switching point, or None before there is one.
            version: The current version.
        """
        if switched is None:
            return 1.0
        width = self.settings.window * switched
        return max(0.0, 1.0 - (version - switched) / width) if width > 0 else 0.0

    def parts(self, state: State) -> Sequence[tuple[Compensator, State]]:
        """Return the inner one."""
        return [(self.inner, state["inner"])]

    def reached_by(
        self, update: Update, state: State, view: ServerView
    ) -> Iterator[tuple[Compensator, State]]:
        """Yield the inner one, unless the client has switched back for good."""
        switched = state["clients"].get(update.client_id, _NEW)["switched"]
        if self.gamma(switched, view.version) > 0:
            yield self.inner, state["inner"]

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Compare earlier estimates with what has come, then estimate and mix."""
        clients: dict[str, Entry] = {
            name: self._without_lost(entry, view) for name, entry in state["clients"].items()
        }
        notes: list[Note] = []
        # 1. What arrives now is the truth for earlier estimates.
        for update in sorted(updates, key=lambda u: u.key):
            if update.client_id in clients:
                entry, found = self._measure(clients[update.client_id], update, view.version)
                clients[update.client_id] = entry
                notes.extend(found)

        def gamma_of(update: Update) -> float:
            if update.staleness(view.version) == 0:
                return 1.0
            switched = clients.get(update.client_id, _NEW)["switched"]
            return self.gamma(switched, view.version)

        # 2. Clients that have switched for good cost nothing any more.
        given = [u for u in updates if gamma_of(u) > 0]
        outcome = self.inner.apply(given, state["inner"], view)
        came = {u.key: u for u in given}
        mixed: list[Update] = []
        for update in outcome.updates:
            stale = came[update.key]
            gamma = gamma_of(update)
            if update.delta is not stale.delta and stale.staleness(view.version) > 0:
                update = self._mix(update, stale, gamma)
                if gamma < 1:
                    notes.append(_switched(update, gamma))
            mixed.append(update)
        done = [u for u in updates if gamma_of(u) == 0]
        notes.extend(_switched(update, 0.0) for update in done)
        # 3. Remember estimates whose truth may still come.
        estimates = {u.key: u for u in outcome.updates}
        for stale in sorted(given, key=lambda u: u.key, reverse=True):  # of several the newest
            estimate = estimates.get(stale.key)
            if (
                estimate is not None
                and estimate.delta is not stale.delta
                and stale.staleness(view.version) > 0
            ):
                entry = clients.get(stale.client_id, _NEW)
                clients[stale.client_id] = self._remember(entry, estimate, stale, view)
        return Outcome(
            in_order([*mixed, *done], updates),
            {"inner": outcome.state, "clients": _worth_keeping(clients)},
            (*outcome.notes, *notes),
        )

    def _without_lost(self, entry: Entry, view: ServerView) -> Entry:
        """Forget estimates whose truth can no longer come: nobody works on those versions."""

        def may_come(item: Mapping[str, Any]) -> bool:
            first, last = _first(item), item["until"]
            if last < entry["newest"]:
                return False
            return last >= view.version or any(is_kept(view, v) for v in range(first, last + 1))

        return {**entry, "estimates": [e for e in entry["estimates"] if may_come(e)]}

    def _measure(self, entry: Entry, update: Update, now: int) -> tuple[Entry, list[Note]]:
        """Compare the estimate that this update is the truth for, if there is one."""
        base = update.base_version
        entry = {**entry, "newest": max(base, entry["newest"])}
        waiting = entry["estimates"]
        due = [e for e in waiting if _first(e) <= base <= e["until"] and e["version"] < now]
        # Older ones can no longer be met: a client's updates come in order.
        entry["estimates"] = [e for e in waiting if _first(e) > base]
        if not due or entry["switched"] is not None:
            return entry, []
        found = due[-1]  # the nearest
        estimate_error = self._error(found["estimate"], update.delta)
        stale_error = self._error(found["stale"], update.delta)
        if not (math.isfinite(estimate_error) and math.isfinite(stale_error)):
            return entry, []
        entry["worse"] = entry["worse"] + 1 if estimate_error > stale_error else 0
        if entry["worse"] >= self.settings.patience:
            entry |= {"switched": now, "estimates": []}
        detail = {
            "version": found["version"],
            "estimate_error": estimate_error,
            "stale_error": stale_error,
        }
        return entry, [Note("measured", update.client_id, base, detail)]

    def _error(self, value: Params, truth: Params) -> float:
        a, b = flatten(value).double(), flatten(truth).double()
        return float(disparity_of(self.settings.disparity)(a, b, None))

    def _mix(self, estimate: Update, stale: Update, gamma: float) -> Update:
        if gamma == 1:
            return estimate
        delta = add(scale(estimate.delta, gamma), stale.delta, 1 - gamma)
        return dataclasses.replace(estimate, delta=delta)

    def _remember(self, entry: Entry, estimate: Update, stale: Update, view: ServerView) -> Entry:
        waiting, now = entry["estimates"], view.version
        known = any(e["version"] == now for e in waiting)
        if entry["switched"] is not None or len(waiting) >= self.settings.keep or known:
            return entry
        span = (
            max(1, int(self.settings.match_window * stale.staleness(now)))
            if self.settings.match_window > 0
            else 0
        )
        item: dict[str, Any] = {
            "version": now,
            "until": now + span,
            "estimate": dict(estimate.delta),
            "stale": dict(stale.delta),
        }
        # While an update waited for its fit, its client has begun to work again.
        ahead = view.tools.prefits.get(stale.key)
        if ahead is not None and (first := max(ahead.since, now - span)) < now:
            item["first"] = first
        return {**entry, "estimates": [*waiting, item]}


def _first(item: Mapping[str, Any]) -> int:
    """Return the first version from which an update is taken for an estimate's truth."""
    return int(item.get("first", item["version"]))


def _worth_keeping(clients: Mapping[str, Entry]) -> dict[str, Entry]:
    """Leave out clients of whom nothing is known, so that memory does not grow with time."""
    known = {
        name: entry
        for name, entry in clients.items()
        if entry["estimates"] or entry["worse"] or entry["switched"] is not None
    }
    return dict(sorted(known.items()))


def _switched(update: Update, gamma: float) -> Note:
    return Note("switched", update.client_id, update.base_version, {"gamma": gamma})


def switch_back(
    inner: Compensator,
    window: float = 0.1,
    disparity: str = "cosine",
    patience: int = 2,
    keep: int = 1,
    match_window: float = 0.1,
) -> SwitchBack:
    """Return the compensator that gives up `inner`, client by client, once it harms.

    Example:
        >>> from unstale.methods import FirstOrder
        >>> wrapped = switch_back(FirstOrder())
        >>> [wrapped.gamma(switched=100, version=v) for v in (99 + 1, 105, 110, 200)]
        [1.0, 0.5, 0.0, 0.0]

    References:
        Wang and Gao, Tackling Intertwined Data and Device Heterogeneities in Federated
        Learning with Unlimited Staleness, on switching back to vanilla FL.
    """
    settings = Switching(
        window=window,
        disparity=disparity,
        patience=patience,
        keep=keep,
        match_window=match_window,
    )
    return SwitchBack(inner, settings)
