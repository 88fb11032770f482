r"""Switching back: using stale updates again once estimates have become worse than those.

Late in training the model hardly changes, and the error of an estimate becomes larger
than that of the stale update itself. The server can tell when the client's true update
from version t arrives: it compares that update with the estimate it made for version t
($E_1$, their disparity) and with the stale update it had at that time ($E_2$). After
`patience` consecutive comparisons with $E_1 > E_2$ the client switches back; the current
version is its switching point $t_s$. From then on its updates are

$$ \gamma\,e + (1-\gamma)\,s, \qquad \gamma = 1 - \frac{t - t_s}{a\,t_s}, $$

with the estimate e, the stale update s and the window a = 0.1: γ falls from 1 to 0 within
a tenth of the rounds before the switch, and stays at 0. The setting `at` forces
the switching point: then $t_s$ is that version for all clients, and comparisons, which are still
made until then, decide nothing.

A client that works on one model at a time starts its next work shortly after its update
arrived, so there may be no update from version t itself. Then an update from up to
`match_window` after t serves as the truth for both errors. If the stale update was
awaiting its fit, the client's next work may have started before t; then an update from
that long before t serves too, at most `match_window` before t.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unstale.inversion.objective import disparity_of
from unstale.methods.absence import stood_in_for, without_absent
from unstale.methods.base import Compensator, check_inner, in_order, is_kept
from unstale.methods.conversion.settings import Switching
from unstale.methods.watching import watched
from unstale.params import Params, add, flatten, l1_error, scale
from unstale.updates import Note, Outcome, ServerView, State, Update

# The state of one client: `estimates` that await their comparison (each with `version`, `until`,
# `estimate`, `stale`, and `first` if it is below `version`), `worse` (the number of consecutive
# comparisons in which the estimate was worse), `switched` (t_s or None) and `newest` (the newest
# base version that arrived).
Entry = Mapping[str, Any]
_NEW: Entry = {"estimates": [], "worse": 0, "switched": None, "newest": -1}


@dataclass(frozen=True, slots=True)
class SwitchBack:
    """Uses stale updates again where compensation has become harmful; made by `switch_back`.

    Memory, for each client with an estimate to compare: at most `keep` pairs of updates.
    """

    inner: Compensator
    """The compensator that makes the estimates."""
    settings: Switching = field(default_factory=Switching)
    """When to switch; `enabled` is read by `Convert` only."""

    def __post_init__(self) -> None:
        check_inner("switch_back", self.inner)

    @property
    def lookback(self) -> int:
        """The lookback of `inner`."""
        return self.inner.lookback

    def init(self) -> State:
        """Return the state of `inner`, and no clients."""
        return {"inner": self.inner.init(), "clients": {}}

    def gamma(self, switched: int | None, version: int) -> float:
        """Return γ, the share of the estimate in a client's update.

        Args:
            switched: The client's switching point, or None if it has not switched.
            version: The current version.
        """
        if switched is None:
            return 1.0
        width = self.settings.window * switched
        return max(0.0, 1.0 - (version - switched) / width) if width > 0 else 0.0

    def _switched(self, entry: Entry, version: int) -> int | None:
        """Return the switching point of a client, or None if it has not switched."""
        if self.settings.at is not None:
            return self.settings.at if version >= self.settings.at else None
        found: int | None = entry["switched"]
        return found

    def _share(self, clients: Mapping[str, Entry], client: str, version: int) -> float:
        """Return γ of a client at a version."""
        return self.gamma(self._switched(clients.get(client, _NEW), version), version)

    def parts(self, state: State) -> Sequence[tuple[Compensator, State]]:
        """Return `inner` with its state."""
        return [(self.inner, state["inner"])]

    def reached_by(
        self, update: Update, state: State, view: ServerView
    ) -> Iterator[tuple[Compensator, State]]:
        """Yield `inner`, unless the client's γ has reached 0."""
        if self._share(state["clients"], update.client_id, view.version) > 0:
            yield self.inner, state["inner"]

    def stands_in_for(self, state: State, version: int) -> frozenset[str]:
        """Return the clients that `inner` would stand in for and whose γ is above 0."""
        found = stood_in_for(self.inner, state["inner"], version)
        clients = state["clients"]
        return frozenset(c for c in found if self._share(clients, c, version) > 0)

    def watch(self, updates: Sequence[Update], state: State, view: ServerView) -> State:
        """Show updates that pass by to `inner`, except of clients whose γ has reached 0."""
        clients = state["clients"]
        shown = [u for u in updates if self._share(clients, u.client_id, view.version) > 0]
        return {**state, "inner": watched(self.inner, shown, state["inner"], view)}

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Compare earlier estimates with what arrived, then compensate and mix."""
        clients: dict[str, Entry] = {
            name: self._without_lost(entry, view) for name, entry in state["clients"].items()
        }
        notes: list[Note] = []
        # 1. Compare earlier estimates with the true updates that arrived.
        for update in sorted(updates, key=lambda u: u.key):
            if update.client_id in clients and not update.stand_in:
                entry, found = self._measure(clients[update.client_id], update, view.version)
                clients[update.client_id] = entry
                notes.extend(found)

        def gamma_of(update: Update) -> float:
            if update.staleness(view.version) == 0:
                return 1.0
            return self._share(clients, update.client_id, view.version)

        # 2. Compensate and mix; clients whose γ is 0 are not compensated any more.
        given = [u for u in updates if gamma_of(u) > 0]

        def share_of(client: str) -> float:
            return self._share(clients, client, view.version)

        inner_view = without_absent(view, lambda client: share_of(client) == 0)
        outcome = self.inner.apply(given, state["inner"], inner_view)
        came = {u.key: u for u in given}
        mixed: list[Update] = []
        for update in outcome.updates:
            if update.key not in came:  # a stand-in: there is no stale update to mix with
                share = share_of(update.client_id)
                mixed.append(dataclasses.replace(update, weight=share * update.weight))
                continue
            stale = came[update.key]
            gamma = gamma_of(update)
            if update.delta is not stale.delta and stale.staleness(view.version) > 0:
                update = self._mix(update, stale, gamma)
                if gamma < 1:
                    notes.append(_switched(update, gamma))
            mixed.append(update)
        done = [u for u in updates if gamma_of(u) == 0]
        notes.extend(_switched(update, 0.0) for update in done)
        # 3. Keep estimates whose true update may still arrive.
        estimates = {u.key: u for u in outcome.updates}
        for stale in sorted(given, key=lambda u: u.key, reverse=True):  # newest first
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
            (*(_shared(note, share_of) for note in outcome.notes), *notes),
        )

    def _without_lost(self, entry: Entry, view: ServerView) -> Entry:
        """Return the entry without estimates whose true update can no longer arrive.

        None is left once a forced switching point is reached.
        """
        if self.settings.at is not None and view.version >= self.settings.at:
            return {**entry, "estimates": []}

        def may_come(item: Mapping[str, Any]) -> bool:
            first, last = _first(item), item["until"]
            if last < entry["newest"]:
                return False
            return last >= view.version or any(is_kept(view, v) for v in range(first, last + 1))

        return {**entry, "estimates": [e for e in entry["estimates"] if may_come(e)]}

    def _measure(self, entry: Entry, update: Update, now: int) -> tuple[Entry, list[Note]]:
        """Compare an update with the estimate that was made for its version, if there is one."""
        base = update.base_version
        entry = {**entry, "newest": max(base, entry["newest"])}
        waiting = entry["estimates"]
        due = [e for e in waiting if _first(e) <= base <= e["until"] and e["version"] < now]
        # A client's updates arrive in order, so earlier estimates will not be compared any more.
        entry["estimates"] = [e for e in waiting if _first(e) > base]
        if not due or self._switched(entry, now) is not None:
            return entry, []
        found = due[-1]  # the nearest version
        estimate_error = self._error(found["estimate"], update.delta)
        stale_error = self._error(found["stale"], update.delta)
        if not (math.isfinite(estimate_error) and math.isfinite(stale_error)):
            return entry, []
        entry["worse"] = entry["worse"] + 1 if estimate_error > stale_error else 0
        if entry["worse"] >= self.settings.patience and self.settings.at is None:
            entry |= {"switched": now, "estimates": []}
        detail = {
            "version": found["version"],
            "estimate_error": estimate_error,
            "stale_error": stale_error,
            # Whatever the setting is: the paper shows both.
            "estimate_l1": l1_error(found["estimate"], update.delta),
            "stale_l1": l1_error(found["stale"], update.delta),
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
        if self._switched(entry, now) is not None or len(waiting) >= self.settings.keep or known:
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
        # While the update was awaiting its fit, its client may have started its next work.
        ahead = view.tools.prefits.get(stale.key)
        if ahead is not None and (first := max(ahead.since, now - span)) < now:
            item["first"] = first
        return {**entry, "estimates": [*waiting, item]}


def _first(item: Mapping[str, Any]) -> int:
    """Return the first version from which an update is compared with an estimate."""
    return int(item.get("first", item["version"]))


def _worth_keeping(clients: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return the entries that hold information, so that the state does not grow with time."""
    known = {
        name: entry
        for name, entry in clients.items()
        if entry["estimates"] or entry["worse"] or entry["switched"] is not None
    }
    return dict(sorted(known.items()))


def _shared(note: Note, share_of: Callable[[str], float]) -> Note:
    """Return the note of a stand-in with the weight that the client's share leaves of it."""
    if note.kind != "stood_in":
        return note
    weight = share_of(note.client_id) * note.detail["weight"]
    return dataclasses.replace(note, detail={**note.detail, "weight": weight})


def _switched(update: Update, gamma: float) -> Note:
    return Note("switched", update.client_id, update.base_version, {"gamma": gamma})


def switch_back(
    inner: Compensator,
    window: float = 0.1,
    disparity: str = "cosine",
    patience: int = 2,
    keep: int = 1,
    match_window: float = 0.1,
    at: int | None = None,
) -> SwitchBack:
    """Return a compensator that uses `inner` until it becomes harmful, for each client.

    Args:
        inner: The compensator that makes the estimates.
        window: Rounds in which γ falls to 0, as a share of the rounds before the switch.
        disparity: Distance between an estimate and the true update.
        patience: Consecutive comparisons with a worse estimate after which to switch.
        keep: Maximum number of estimates per client that are kept for comparison.
        match_window: How far the version of a true update may differ from that of an estimate,
            as a share of the staleness.
        at: The version at which all clients switch, instead of after comparisons.

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
        at=at,
    )
    return SwitchBack(inner, settings)
