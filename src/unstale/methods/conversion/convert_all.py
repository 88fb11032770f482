"""Conversion: a stale update into the one that its client would send today."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from unstale.errors import ConfigError
from unstale.executors import WorkerError
from unstale.inversion import Conversion, InputSpec, Inversion, Request, Surrogate, estimate_many
from unstale.methods.base import check_fallback, fall_back
from unstale.methods.conversion import client_memory
from unstale.methods.conversion.parallel import convert_spread
from unstale.methods.conversion.prefit import Preparation
from unstale.params import norm
from unstale.seeding import derive
from unstale.updates import Note, Outcome, Prepared, ServerView, State, Update

# A client's first conversion (cold), its second (warm) and then every so many tell their loss
# at so many of the iterations.
CURVE_EVERY, CURVE_POINTS = 10, 12


@dataclass(frozen=True, slots=True)
class ConvertAll(Inversion):
    """Converts every stale update whose base weights are known, all of a round at once.

    For each, a surrogate is found whose training from the base gives the stale update;
    training it from today's weights gives the estimate. A conversion that failed, or is
    not to be trusted, leaves the stale update and says why. Needs `Server(inputs=...)`.

    Memory, for each of at most `max_clients` clients: a surrogate (`max_samples` inputs
    and labels) and, with a `history` of h above 1, 2·(h−1) times the model.

    Example:
        >>> ConvertAll(history=3, sparsity=0).lookback
        0
    """

    warm_start: bool = True
    """Whether a client's surrogate is kept and improved when its next update comes."""
    max_growth: float = 10.0
    """An estimate this many times as large as the stale update is not trusted; 0: any is."""
    max_conversions: int | None = None
    """The most conversions in a round, the stalest first; others are used as they came."""
    round_seconds: float | None = None
    """Seconds that a round's conversions may take; results then depend on the machine."""
    max_clients: int = 1000
    """Of how many clients something is remembered; who was converted last stays."""
    fallback: str = "keep"
    """What becomes of an update whose base weights are gone: `keep` or `drop`."""

    def __post_init__(self) -> None:
        # By name: super() finds the class before `slots` made it anew.
        Inversion.__post_init__(self)
        if not self.max_growth >= 0:
            raise ConfigError(
                f"ConvertAll: `max_growth` should be at least 0. Found {self.max_growth!r}."
            )
        for name in ("max_conversions", "max_clients"):
            value = getattr(self, name)
            if value is None and name == "max_conversions":
                continue
            if type(value) is not int or value < 1:
                raise ConfigError(
                    f"ConvertAll: `{name}` should be a positive integer. Found {value!r}."
                )
        if self.round_seconds is not None and not self.round_seconds > 0:
            raise ConfigError(
                f"ConvertAll: `round_seconds` should be above 0. Found {self.round_seconds!r}."
            )
        check_fallback(self.fallback)

    @property
    def lookback(self) -> int:
        """Only the base itself is read; what is fitted of the past is remembered."""
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
        # 1. Who can be converted, within the round's budget; fits made ahead cost it nothing.
        ahead = {i: made for i in late if (made := _prepared(updates[i], view)) is not None}
        known: dict[int, client_memory.Known] = {}
        budget = len(late) if self.max_conversions is None else self.max_conversions
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
            solved = convert_spread(
                list(requests.values()), model, inputs, self, view, self.round_seconds
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
            if surrogate is not None or self.history > 1:
                clients[update.client_id] = client_memory.remember(
                    entry, pair, surrogate, self.history - 1, view.version
                )
        results = [treated.get(i, (update, None)) for i, update in enumerate(updates)]
        return Outcome(
            tuple(update for update, _ in results if update is not None),
            {"clients": client_memory.latest(clients, self.max_clients)},
            tuple(note for _, note in results if note is not None),
        )

    def prepare(self, update: Update, state: State, view: ServerView) -> Preparation | None:
        """Return the fit that is to be made for a stale update whose base weights are known.

        With the client's memory as it is now: its updates should be prepared one by one.
        """
        if update.staleness(view.version) <= 0 or view.model is None or view.inputs is None:
            return None
        base = view.history(update.base_version)
        if base is None:
            return None
        request = self._request((update, base), (), state["clients"], view)
        return Preparation(request, view.local, view.inputs, self)

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
        past = client_memory.past_of(entry, others, update.base_version, self.history - 1)
        # By what it is for, so that neither order nor other clients make a difference.
        seed = derive(view.rng.initial_seed(), "convert", update.client_id, update.base_version)
        warm = client_memory.surrogate_of(entry)
        return Request(base, update.delta, update.num_examples, past, warm, seed)

    def _estimated(
        self, ahead: Mapping[int, Prepared], model: nn.Module, view: ServerView
    ) -> dict[int, Conversion]:
        """Train the surrogates that were found ahead from today's weights."""
        estimates = estimate_many(
            model,
            [prepared.request for prepared in ahead.values()],
            [prepared.fit for prepared in ahead.values()],
            current=view.params,
            local=view.local,
            settings=self,
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


def _prepared(update: Update, view: ServerView) -> Prepared | None:
    """Return the fit that was made for this very delta, if there is one."""
    found = view.prepared.get((update.client_id, update.base_version))
    # Another part of a chain may have changed it, or prepared it for itself.
    return found if found is not None and found.request.delta is update.delta else None


def _needed(view: ServerView) -> tuple[nn.Module, InputSpec]:
    if view.model is None:
        raise ConfigError(
            "Conversion should have the model to train. Found none. "
            "Pass it: Server(model, ...), or Server.load(dir, model)."
        )
    if view.inputs is None:
        raise ConfigError(
            "Conversion should know what inputs look like. Found nothing. Pass it: "
            "Server(..., inputs=InputSpec(shape=..., classes=..., low=..., high=...))."
        )
    return view.model, view.inputs


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
