"""Conversion of all stale updates of a round, without selection or switching back.

It also stands in for absent clients that have a surrogate: see `stand_ins.py`.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from unstale.errors import ConfigError
from unstale.executors import WorkerError
from unstale.inversion import Conversion, InputSpec, Inversion, Request, Surrogate, estimate_with
from unstale.methods.base import check_fallback, fall_back
from unstale.methods.conversion import client_memory, stand_ins
from unstale.methods.conversion.parallel import fit_parallel
from unstale.methods.conversion.prefit import FitJob
from unstale.methods.conversion.settings import Budget, StandIn
from unstale.params import norm
from unstale.seeding import derive
from unstale.updates import Note, Outcome, PrefitResult, ServerView, State, Update

# The loss curve is recorded at 12 iterations of cold fits, of a client's second fit and of every
# tenth: enough for the report, without making the round's line long.
CURVE_EVERY, CURVE_POINTS = 10, 12

# What is used of an update (None drops it), and the note about it.
Treated = tuple[Update | None, Note]


@dataclass(frozen=True, slots=True)
class ConvertAll:
    """Converts every stale update whose base version is still kept, a round in one batch.

    If a fit fails or its estimate is not trusted (`max_growth`), the stale update is used
    unchanged and a note gives the reason.

    Memory, for each of at most `budget.max_clients` clients: a surrogate of up to
    `inversion.max_samples` samples and, with `inversion.history` = h, 2·(h−1) times the
    size of the model.

    Example:
        >>> ConvertAll(Inversion(history=3, sparsity=0)).lookback
        0
    """

    inversion: Inversion = field(default_factory=Inversion)
    """How surrogates are fitted."""
    stand_in: StandIn = field(default_factory=StandIn)
    """When the server stands in for a client that is at work or away."""
    budget: Budget = field(default_factory=Budget)
    """Limits on the time and memory of conversions."""
    warm_start: bool = True
    """Whether the fit to a client's next update starts from its last surrogate."""
    max_growth: float = 10.0
    """The stale update is used instead of an estimate whose norm is more than this many times
    the stale update's; 0 for no limit."""
    fallback: str = "keep"
    """What to do with an update whose base version is no longer stored: `keep` (use it unchanged)
    or `drop`."""

    def __post_init__(self) -> None:
        if not self.max_growth >= 0:
            raise ConfigError(
                f"Convert: `max_growth` should be at least 0. Found {self.max_growth!r}."
            )
        check_fallback(self.fallback)

    @property
    def lookback(self) -> int:
        """0: only base versions are read; earlier updates are in the state."""
        return 0

    def init(self) -> State:
        """Return the state without any client."""
        return {"clients": {}}

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Convert the stale updates of a round, and stand in for absent clients."""
        late = [i for i, u in enumerate(updates) if u.staleness(view.version) > 0]
        planned = stand_ins.plan(updates, state["clients"], view, self.stand_in)
        if not (late or planned):
            return Outcome(tuple(updates), state)
        model, inputs = _needed(view)
        # 1. Select the updates to convert.
        ahead = {i: made for i in late if (made := _prefit(updates[i], view)) is not None}
        chosen, treated = self._selected(updates, late, ahead, view)
        # 2. Fit a surrogate to each.
        requests = {
            i: self._request(pair, chosen.values(), state["clients"], view)
            for i, pair in chosen.items()
            if i not in ahead
        }
        seconds = self.budget.round_seconds
        fits = {i: made.fit for i, made in ahead.items()}
        try:
            fits |= zip(
                requests,
                fit_parallel(list(requests.values()), model, inputs, self.inversion, view, seconds),
                strict=True,
            )
        except WorkerError as error:
            treated |= {i: fall_back(updates[i], "keep", str(error)) for i in requests}
        requests |= {i: made.request for i, made in ahead.items()}
        # 3. Train all surrogates of the round together.
        conversions, changes = estimate_with(
            model,
            [requests[i] for i in sorted(fits)],
            [fits[i] for i in sorted(fits)],
            planned.trainings(state["clients"], view, self.inversion),
            current=view.params,
            local=view.local,
            settings=self.inversion,
        )
        # 4. Use the estimates that can be trusted, and update the state.
        done = stand_ins.conclude(planned, changes, state["clients"], view, self.max_growth)
        for i, conversion in zip(sorted(fits), conversions, strict=True):
            treated[i] = self._used(chosen[i], conversion, done.clients, view.version)
        results = [treated.get(i, (update, None)) for i, update in enumerate(updates)]
        return Outcome(
            (*(update for update, _ in results if update is not None), *done.updates),
            {"clients": client_memory.latest(done.clients, self.budget.max_clients)},
            (*(note for _, note in results if note is not None), *done.notes),
        )

    def _selected(
        self,
        updates: Sequence[Update],
        late: Sequence[int],
        ahead: Mapping[int, PrefitResult],
        view: ServerView,
    ) -> tuple[dict[int, client_memory.Known], dict[int, Treated]]:
        """Return the updates to convert in the order of arrival, and what became of the others.

        The stalest are selected first; prefits do not count against the budget.
        """
        known: dict[int, client_memory.Known] = {}
        treated: dict[int, Treated] = {}
        bound = self.budget.max_conversions
        budget = len(late) if bound is None else bound
        for i in sorted(late, key=lambda i: -updates[i].staleness(view.version)):
            base = ahead[i].request.base if i in ahead else view.history(updates[i].base_version)
            if base is None:
                treated[i] = fall_back(updates[i], self.fallback, "the base weights are gone")
            elif i not in ahead and budget == 0:
                treated[i] = fall_back(updates[i], "keep", "the round's conversions are used up")
            else:
                known[i] = (updates[i], base)
                budget -= i not in ahead
        return {i: known[i] for i in sorted(known)}, treated

    def _used(
        self,
        pair: client_memory.Known,
        conversion: Conversion,
        clients: dict[str, client_memory.Entry],
        version: int,
    ) -> Treated:
        """Return what is used of a converted update, and change its client's entry."""
        update = pair[0]
        entry = clients.get(update.client_id, {})
        if fault := self._fault(update, conversion):
            cost = {"iterations": conversion.iterations, "seconds": conversion.seconds}
            kept, note = fall_back(update, "keep", fault)
            # The next fit should not start from a surrogate that led to this. Without an
            # iteration there was no fit: the update itself was at fault.
            if conversion.iterations and entry:
                clients[update.client_id] = client_memory.without_surrogate(entry)
            return kept, dataclasses.replace(note, detail={**note.detail, **cost})
        keeps = self.warm_start or self.stand_in.enabled
        surrogate = conversion.surrogate if keeps else None
        depth = self.inversion.history - 1
        if surrogate is not None or depth:
            clients[update.client_id] = client_memory.remember(
                entry, pair, surrogate, depth, version
            )
        return _converted(update, conversion, entry.get("count", 0))

    def stands_in_for(self, state: State, version: int) -> frozenset[str]:
        """Return the clients whose surrogate is kept, not too old, and trusted."""
        clients = state["clients"]
        return frozenset(
            client
            for client in clients
            if stand_ins.weight_of(client, clients, version, self.stand_in) > 0
        )

    def fit_job(self, update: Update, state: State, view: ServerView) -> FitJob | None:
        """Return the fit for a stale update whose base version is still kept.

        The fit starts from the client's surrogate in `state`, so updates of one client
        should be fitted one after the other.
        """
        tools = view.tools
        if update.staleness(view.version) <= 0 or tools.model is None or tools.inputs is None:
            return None
        base = view.history(update.base_version)
        if base is None:
            return None
        request = self._request((update, base), (), state["clients"], view)
        return FitJob(request, view.local, tools.inputs, self.inversion)

    def surrogates(self, state: State) -> dict[str, Surrogate]:
        """Return the surrogates in the state, by client."""
        found = {c: client_memory.surrogate_of(entry) for c, entry in state["clients"].items()}
        return {client: surrogate for client, surrogate in found.items() if surrogate is not None}

    def _request(
        self,
        pair: client_memory.Known,
        round_: Iterable[client_memory.Known],
        clients: Mapping[str, client_memory.Entry],
        view: ServerView,
    ) -> Request:
        update, base = pair
        entry = clients.get(update.client_id, {})
        others = [other for other in round_ if other[0].client_id == update.client_id]
        past = client_memory.past_of(entry, others, update.base_version, self.inversion.history - 1)
        # Depends on client and base version only, not on the other updates of the round.
        seed = derive(view.rng.initial_seed(), "convert", update.client_id, update.base_version)
        warm = client_memory.surrogate_of(entry) if self.warm_start else None
        return Request(base, update.delta, update.num_examples, past, warm, seed)

    def _fault(self, update: Update, conversion: Conversion) -> str:
        """Return why the estimate should not be used; empty if it should."""
        if not conversion.ok:
            return conversion.reason
        if self.max_growth:
            growth = norm(conversion.delta) / norm(update.delta)
            if not growth <= self.max_growth:
                return f"not trusted: the estimate is {growth:.3g} times as large as the update"
        return ""


def _prefit(update: Update, view: ServerView) -> PrefitResult | None:
    """Return the prefit for this update, or None."""
    found = view.tools.prefits.get(update.key)
    # A prefit is for one delta: an earlier part of a chain may have changed it since.
    return found if found is not None and found.request.delta is update.delta else None


def _needed(view: ServerView) -> tuple[nn.Module, InputSpec]:
    if view.tools.model is None:
        raise ConfigError(
            "Conversion should have the model to train. Found none. "
            "Pass it: Server(model, ...), or Server.load(dir, model)."
        )
    if view.tools.inputs is None:
        raise ConfigError(
            "Conversion should know the shape and bounds of inputs. Found nothing. Pass them: "
            "Server(..., inputs=InputSpec(shape=..., classes=..., low=..., high=...))."
        )
    return view.tools.model, view.tools.inputs


def _converted(update: Update, conversion: Conversion, before: int) -> tuple[Update, Note]:
    detail: dict[str, Any] = {
        "loss": conversion.loss,
        "iterations": conversion.iterations,
        "seconds": conversion.seconds,
        "start": "warm" if conversion.warm else "cold",
    }
    if not conversion.warm or before == 1 or before % CURVE_EVERY == 0:
        detail["curve"] = _curve(conversion.losses)
    note = Note("converted", update.client_id, update.base_version, detail)
    return dataclasses.replace(update, delta=conversion.delta), note


def _curve(losses: Sequence[float]) -> tuple[tuple[int, float], ...]:
    """Return (iteration, loss) pairs, more of them at the start, where the loss falls fast."""
    last = len(losses) - 1
    steps = CURVE_POINTS - 1
    chosen = sorted({round(last * (i / steps) ** 2) for i in range(CURVE_POINTS)}) if losses else ()
    return tuple((i + 1, losses[i]) for i in chosen)
