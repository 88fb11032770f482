"""Conversion of all stale updates of a round, without selection or switching back.

It also stands in for absent clients that have a surrogate (`stand_ins.py`), remembers the
last updates of slow clients, converted or not (`past_updates.py`), and learns how far estimates
can be trusted (`calibrating.py`).
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from unstale.errors import ConfigError
from unstale.executors import WorkerError
from unstale.inversion import (
    Conversion,
    Fit,
    Inversion,
    Request,
    Surrogate,
    estimate_with,
)
from unstale.methods.base import check_fallback, fall_back
from unstale.methods.conversion import calibrating, client_memory, past_updates, stand_ins
from unstale.methods.conversion.borrowing import borrowed_for
from unstale.methods.conversion.candidates import inversion_of
from unstale.methods.conversion.converted import converted
from unstale.methods.conversion.parallel import fit_parallel, needed
from unstale.methods.conversion.prefit import FitJob
from unstale.methods.conversion.selection import Treated, prefit_of, select
from unstale.methods.conversion.settings import Budget, Calibration, StandIn
from unstale.methods.conversion.stand_in_trust import share_of
from unstale.params import norm
from unstale.seeding import derive
from unstale.updates import Outcome, ServerView, State, Update

# A fit of a round: the index of the update that is converted, or client and candidate of a probe.
Asked = int | tuple[str, str]


@dataclass(frozen=True, slots=True)
class ConvertAll:
    """Converts every stale update whose base version is still kept, a round in one batch.

    What is used lies between the stale update and the estimate, as far as earlier estimates
    proved right (`calibration`). If a fit fails or its estimate is absurd (`max_growth`), the
    stale update is used unchanged and a note gives the reason.

    Memory, for each of at most `budget.max_clients` clients: `inversion.ensemble` surrogates of up
    to `inversion.max_samples` samples (twice as many if stand-ins are checked) and, with
    `inversion.history` = h, its last h−1 stale updates, each of the model's size. The weights
    that these started from are kept once for all clients: the model's size for each such version.

    Example:
        >>> ConvertAll(Inversion(history=3, sparsity=0)).lookback
        0
    """

    trains_model: ClassVar[bool] = True

    inversion: Inversion = field(default_factory=Inversion)
    """How surrogates are fitted."""
    stand_in: StandIn = field(default_factory=StandIn)
    """When the server stands in for a client that is at work or away."""
    calibration: Calibration = field(default_factory=Calibration)
    """How far estimates are trusted."""
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
        return {"clients": {}, "bases": {}}

    def apply(self, updates: Sequence[Update], state: State, view: ServerView) -> Outcome:
        """Convert the stale updates of a round, and stand in for absent clients."""
        late = [i for i, u in enumerate(updates) if u.staleness(view.version) > 0]
        planned = stand_ins.plan(updates, state["clients"], view, self.stand_in)
        begun = calibrating.begin(updates, state, view, self.calibration, self.inversion)
        probing = begun.probing
        if not (late or planned or probing):
            return Outcome(tuple(updates), begun.kept(state), begun.notes)
        model, _ = needed(view)
        # 1. Select the updates to convert.
        ahead = {i: made for i in late if (made := prefit_of(updates[i], view)) is not None}
        most = self.budget.max_conversions
        known, treated = select(updates, late, ahead, view, most=most, fallback=self.fallback)
        # 2. Fit a surrogate to each, and to the updates of probes.
        requests = {
            i: self._request(pair, known.values(), state, view)
            for i, pair in known.items()
            if i not in ahead and i not in treated
        }
        fits = {i: made.fit for i, made in ahead.items()}
        probed: dict[tuple[str, str], Fit] = {}
        try:
            found = self._fit(requests, probing.fits, begun.by, view)
            fits |= {i: found[i] for i in requests}
            probed = {key: found[key] for key in probing.fits}
        except WorkerError as error:
            treated |= {i: fall_back(updates[i], "keep", str(error)) for i in requests}
        requests |= {i: made.request for i, made in ahead.items()}
        # 3. Train all surrogates of the round together.
        standing = planned.trainings(state["clients"], view, self.inversion)
        conversions, changes = estimate_with(
            model,
            [requests[i] for i in sorted(fits)],
            [fits[i] for i in sorted(fits)],
            [*standing, *probing.trainings(probed, view, self.inversion)],
            current=view.params,
            local=view.local,
            settings=self.inversion,
        )
        # 4. Use the estimates as far as they can be trusted, and update the state.
        stood, of_probes = changes[: len(standing)], changes[len(standing) :]
        done = stand_ins.conclude(planned, stood, state["clients"], view, self.max_growth)
        book, notes = calibrating.conclude(
            begun,
            probed,
            of_probes,
            planned.newest_checked(stood),
            view,
            self.inversion,
            self.max_growth,
        )
        for i, conversion in zip(sorted(fits), conversions, strict=True):
            treated[i] = self._used(updates[i], conversion, done.clients, view.version)
        by_index = dict(zip(sorted(fits), conversions, strict=True))
        treated, book = calibrating.used(
            treated, updates, requests, by_index, state["clients"], book, begun, view
        )
        after = begun.kept({**state, "clients": done.clients}, book)
        results = [treated.get(i, (update, None)) for i, update in enumerate(updates)]
        return Outcome(
            (*(update for update, _ in results if update is not None), *done.updates),
            self._remembered(after, known.values(), view.version),
            (*(note for _, note in results if note is not None), *done.notes, *notes),
        )

    def _fit(
        self,
        requests: Mapping[int, Request],
        probes: Mapping[tuple[str, str], Request],
        by: str,
        view: ServerView,
    ) -> dict[Asked, Fit]:
        """Fit the surrogates of a round: all in one batch, unless there are candidates.

        Args:
            requests: What is converted.
            probes: What is fitted to learn from, by client and candidate.
            by: The candidate by which `requests` are fitted.
            view: The server.
        """
        model, inputs = needed(view)
        kinds: dict[str, dict[Asked, Request]] = {by: {}}
        for i, request in requests.items():
            kinds[by][i] = request
        for (client, name), request in probes.items():
            kinds.setdefault(name, {})[client, name] = request
        found: dict[Asked, Fit] = {}
        for name, group in kinds.items():
            seconds = self.budget.round_seconds
            if seconds is not None and len(kinds) > 1:
                seconds *= len(group) / (len(requests) + len(probes))
            inversion = inversion_of(name, self.inversion)
            asked = list(group.values())
            found |= zip(
                group, fit_parallel(asked, model, inputs, inversion, view, seconds), strict=True
            )
        return found

    def watch(self, updates: Sequence[Update], state: State, view: ServerView) -> State:
        """Remember stale updates that a wrapper does not have converted."""
        if calibrating.depth_of(self.calibration, self.inversion) == 0:
            return state
        late = [u for u in updates if u.staleness(view.version) > 0]
        known = [(u, base) for u in late if (base := view.history(u.base_version)) is not None]
        return self._remembered(state, known, view.version)

    def _remembered(
        self, state: State, known: Iterable[client_memory.Known], version: int
    ) -> State:
        """Return the state with these past updates, within the limits on memory."""
        depth = calibrating.depth_of(self.calibration, self.inversion)
        after = past_updates.remember(state, known, depth, version)
        most = self.budget.max_clients
        return calibrating.bounded(past_updates.pruned(after, most), most)

    def _used(
        self,
        update: Update,
        conversion: Conversion,
        clients: dict[str, client_memory.Entry],
        version: int,
    ) -> Treated:
        """Return what is used of a converted update, and change its client's entry."""
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
        if surrogate is not None or calibrating.depth_of(self.calibration, self.inversion):
            clients[update.client_id] = client_memory.remember(
                entry,
                update,
                surrogate,
                version,
                keep_before=self.stand_in.enabled and self.stand_in.checked,
            )
        return converted(update, conversion, entry.get("count", 0))

    def stands_in_for(self, state: State, version: int) -> frozenset[str]:
        """Return the clients whose surrogate is kept, not too old, and trusted."""
        clients = state["clients"]
        return frozenset(
            client for client in clients if share_of(client, clients, version, self.stand_in) > 0
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
        request = self._request((update, base), (), state, view)
        inversion = calibrating.inversion_now(state, self.calibration, self.inversion)
        return FitJob(request, view.local, tools.inputs, inversion)

    def surrogates(self, state: State) -> dict[str, Surrogate]:
        """Return the surrogates in the state, by client."""
        found = {c: client_memory.surrogate_of(entry) for c, entry in state["clients"].items()}
        return {client: surrogate for client, surrogate in found.items() if surrogate is not None}

    def _request(
        self,
        pair: client_memory.Known,
        round_: Iterable[client_memory.Known],
        state: State,
        view: ServerView,
    ) -> Request:
        """Return the request to fit one update; `round_` are all stale updates of the round."""
        update, base = pair
        entry = state["clients"].get(update.client_id, {})
        others = [other for other in round_ if other[0].client_id == update.client_id]
        depth = calibrating.depth_of(self.calibration, self.inversion)
        past = past_updates.past_of(entry, state["bases"], others, update.base_version, depth)
        # Depends on client and base version only, not on the other updates of the round.
        seed = derive(view.rng.initial_seed(), "convert", update.client_id, update.base_version)
        warm = client_memory.surrogate_of(entry) if self.warm_start else None
        borrowed = None if warm is not None else borrowed_for(update, state["clients"])
        return Request(base, update.delta, update.num_examples, past, warm, seed, borrowed)

    def _fault(self, update: Update, conversion: Conversion) -> str:
        """Return why the estimate should not be used; empty if it should."""
        if not conversion.ok:
            return conversion.reason
        if self.max_growth:
            growth = norm(conversion.delta) / norm(update.delta)
            if not growth <= self.max_growth:
                return f"not trusted: the estimate is {growth:.3g} times as large as the update"
        return ""
