"""Conversion of every stale update of a round into the one its client would send today."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from unstale.errors import ConfigError
from unstale.executors import WorkerError
from unstale.inversion import Conversion, InputSpec, Inversion, Request, Surrogate, estimate_many
from unstale.methods.base import check_fallback, fall_back
from unstale.methods.conversion import client_memory
from unstale.methods.conversion.parallel import convert_parallel
from unstale.methods.conversion.prefit import FitJob
from unstale.methods.conversion.settings import Budget
from unstale.params import norm
from unstale.seeding import derive
from unstale.updates import Note, Outcome, PrefitResult, ServerView, State, Update

# The loss curve is recorded for a client's first conversion (cold), its second (warm) and every
# tenth after, at 12 of the iterations: enough for the report, without bloating the round's line.
CURVE_EVERY, CURVE_POINTS = 10, 12


@dataclass(frozen=True, slots=True)
class ConvertAll:
    """Converts every stale update whose base weights are known, all of a round at once.

    A conversion that failed, or whose estimate is not to be trusted, leaves the stale
    update as it came; a note says why.

    Memory, for each of at most `budget.max_clients` clients: a surrogate
    (`inversion.max_samples` inputs and labels) and, with an `inversion.history` of h above
    1, 2·(h−1) times the model.

    Example:
        >>> ConvertAll(Inversion(history=3, sparsity=0)).lookback
        0
    """

    inversion: Inversion = field(default_factory=Inversion)
    """How surrogates are fitted."""
    budget: Budget = field(default_factory=Budget)
    """How much work and memory conversions may take."""
    warm_start: bool = True
    """Whether a client's surrogate is kept and improved when its next update comes."""
    max_growth: float = 10.0
    """An estimate more than this many times as large as the stale update is not used; 0: any is."""
    fallback: str = "keep"
    """What becomes of an update whose base weights are gone: `keep` or `drop`."""

    def __post_init__(self) -> None:
        if not self.max_growth >= 0:
            raise ConfigError(
                f"Convert: `max_growth` should be at least 0. Found {self.max_growth!r}."
            )
        check_fallback(self.fallback)

    @property
    def lookback(self) -> int:
        """Only the base itself is read; earlier updates are in the memory."""
        return 0

    def init(self) -> State:
        """Return the empty memory."""
        return {"clients": {}}

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Convert the round's stale updates."""
        late = [i for i, u in enumerate(updates) if u.staleness(view.version) > 0]
        if not late:
            return Outcome(tuple(updates), state)
        model, inputs = _needed(view)
        treated: dict[int, tuple[Update | None, Note]] = {}
        # 1. Who can be converted, within the round's budget; prefits cost it nothing.
        ahead = {i: made for i in late if (made := _prefit(updates[i], view)) is not None}
        known: dict[int, client_memory.Known] = {}
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
        # 2. Convert them, in the order in which they came.
        chosen = {i: known[i] for i in sorted(known)}
        clients = dict(state["clients"])
        requests = {
            i: self._request(pair, chosen.values(), clients, view)
            for i, pair in chosen.items()
            if i not in ahead
        }
        found = self._estimated(ahead, model, view)
        try:
            solved = convert_parallel(
                list(requests.values()),
                model,
                inputs,
                self.inversion,
                view,
                self.budget.round_seconds,
            )
            found |= dict(zip(requests, solved, strict=True))
        except WorkerError as error:
            for i in requests:
                treated[i] = fall_back(updates[i], "keep", str(error))
        # 3. What to trust, and what to remember.
        for i in sorted(found):
            pair, conversion = chosen[i], found[i]
            update = pair[0]
            entry = clients.get(update.client_id, {})
            if fault := self._fault(update, conversion):
                cost = {"iterations": conversion.iterations, "seconds": conversion.seconds}
                kept, note = fall_back(update, "keep", fault)
                treated[i] = kept, dataclasses.replace(note, detail={**note.detail, **cost})
                if conversion.iterations and entry:  # nonsense that was not even tried is passed
                    clients[update.client_id] = client_memory.without_surrogate(entry)
                continue
            treated[i] = _converted(update, conversion, entry.get("count", 0))
            surrogate = conversion.surrogate if self.warm_start else None
            depth = self.inversion.history - 1
            if surrogate is not None or depth:
                clients[update.client_id] = client_memory.remember(
                    entry, pair, surrogate, depth, view.version
                )
        results = [treated.get(i, (update, None)) for i, update in enumerate(updates)]
        return Outcome(
            tuple(update for update, _ in results if update is not None),
            {"clients": client_memory.latest(clients, self.budget.max_clients)},
            tuple(note for _, note in results if note is not None),
        )

    def fit_job(self, update: Update, state: State, view: ServerView) -> FitJob | None:
        """Return the fit for a stale update whose base weights are known.

        It starts from the client's memory as it is now, so one client's updates should be
        fitted one by one.
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
        """Return the surrogates that are kept, by client."""
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
        # By what it is for, so that neither order nor other clients make a difference.
        seed = derive(view.rng.initial_seed(), "convert", update.client_id, update.base_version)
        warm = client_memory.surrogate_of(entry)
        return Request(base, update.delta, update.num_examples, past, warm, seed)

    def _estimated(
        self, ahead: Mapping[int, PrefitResult], model: nn.Module, view: ServerView
    ) -> dict[int, Conversion]:
        """Train the surrogates that were fitted ahead from today's weights."""
        estimates = estimate_many(
            model,
            [prefit.request for prefit in ahead.values()],
            [prefit.fit for prefit in ahead.values()],
            current=view.params,
            local=view.local,
            settings=self.inversion,
        )
        return dict(zip(ahead, estimates, strict=True))

    def _fault(self, update: Update, conversion: Conversion) -> str:
        """Return why the stale update is the better guess; empty where it is not."""
        if not conversion.ok:
            return conversion.reason
        if self.max_growth:
            growth = norm(conversion.delta) / norm(update.delta)
            if not growth <= self.max_growth:
                return f"not trusted: the estimate is {growth:.3g} times as large as the update"
        return ""


def _prefit(update: Update, view: ServerView) -> PrefitResult | None:
    """Return the fit that was computed ahead for this very delta, if there is one."""
    found = view.tools.prefits.get(update.key)
    # Another part of a chain may have changed the delta, or had it fitted for itself.
    return found if found is not None and found.request.delta is update.delta else None


def _needed(view: ServerView) -> tuple[nn.Module, InputSpec]:
    if view.tools.model is None:
        raise ConfigError(
            "Conversion should have the model to train. Found none. "
            "Pass it: Server(model, ...), or Server.load(dir, model)."
        )
    if view.tools.inputs is None:
        raise ConfigError(
            "Conversion should know what inputs look like. Found nothing. Pass it: "
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
    """Return pairs of iteration, from 1, and loss: denser at the start, where it falls."""
    last = len(losses) - 1
    steps = CURVE_POINTS - 1
    chosen = sorted({round(last * (i / steps) ** 2) for i in range(CURVE_POINTS)}) if losses else ()
    return tuple((i + 1, losses[i]) for i in chosen)
