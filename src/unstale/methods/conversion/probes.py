"""Probes: fast clients whose next updates show how good conversions are.

A fast client sends fresh updates again and again. The server fits a surrogate to one of them,
from version v, as to a stale update. When the client's next fresh update arrives, from version
v', the server converts the first one to v' and has the truth beside it, at the lag v' − v. So
it learns how good conversions of this model are before the first stale update arrives.

At most `Calibration.probes` clients are probes at a time. A probe is compared at lags of 1 and
then at least 1.25 times the last, and is fitted anew, starting from its last surrogate and with
its last updates as slow clients are, when its lag has reached 1.2 times the largest staleness of
late. Probes' fits are at most `Calibration.cost` of the conversions so far, beside a first fit
of each. A comparison is one training of a surrogate.

Memory, for each probe: a surrogate, h updates of the model's size and as many base weights,
where h is `Inversion.history`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unstale.inversion import Fit, Inversion, Request, Surrogate, SurrogateTraining
from unstale.inversion.convert import with_residual, with_stale_embedding
from unstale.inversion.target import size_fault
from unstale.methods.conversion import candidates
from unstale.methods.conversion.calibration import pair_of, vector_of
from unstale.methods.conversion.calibration_book import Book, note_of, with_pair
from unstale.methods.conversion.probe_choice import (
    Probe,
    chosen,
    heard,
    is_due,
    reach_of,
    seen_with,
    version_of,
)
from unstale.methods.conversion.settings import Calibration
from unstale.params import Params, norm
from unstale.seeding import derive
from unstale.updates import Note, ServerView, Update

# A client and the name of a candidate.
Key = tuple[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The probes that a round compares, and those that it fits."""

    book: Book
    """The book after what arrived was counted."""
    checks: Sequence[Key] = ()
    """The surrogates to compare."""
    fits: Mapping[Key, Request] = field(default_factory=dict)
    """The surrogates to fit."""
    fresh: Mapping[str, Update] = field(default_factory=dict)
    """The fresh updates of these clients."""

    def __bool__(self) -> bool:
        return bool(self.checks or self.fits)

    def trainings(
        self, fits: Mapping[Key, Fit], view: ServerView, inversion: Inversion
    ) -> list[SurrogateTraining]:
        """Return the trainings: those of the comparisons, then those of what was just fitted.

        Args:
            fits: What was found for `self.fits`.
            view: The server.
            inversion: How surrogates are fitted.
        """
        probes = self.book["probes"]
        old = [
            (_surrogate(probes[client], name), probes[client]["num_examples"])
            for client, name in self.checks
        ]
        new = [(s, self.fits[key].num_examples) for key, s in _found(fits, inversion)]
        return [
            SurrogateTraining(
                view.params,
                surrogate,
                inversion.local_for(view.local, examples),
                inversion.ensemble,
            )
            for surrogate, examples in [*old, *new]
        ]


def plan(
    updates: Sequence[Update],
    book: Book,
    view: ServerView,
    settings: Calibration,
    inversion: Inversion,
) -> Plan:
    """Return which probes a round compares and fits.

    Args:
        updates: The updates of the round.
        book: The state of the calibration.
        view: The server.
        settings: How many probes there are, and what they may cost.
        inversion: How surrogates are fitted.
    """
    now = view.version
    book = heard(book, updates, now)
    if not settings.probes or view.tools.model is None or view.tools.inputs is None:
        return Plan(book)
    fresh = {
        u.client_id: u
        for u in sorted(updates, key=lambda u: u.key)
        if u.staleness(now) == 0 and not u.stand_in
    }
    reach = reach_of(book, settings)
    probes = {c: p for c, p in book["probes"].items() if now - p["seen"] <= 2 * reach}
    checks = [
        (client, name)
        for client, probe in probes.items()
        if client in fresh and is_due(probe, now - version_of(probe), reach)
        for name, surrogate in probe["surrogates"].items()
        if surrogate
    ]
    probes |= {c: {**p, "seen": now} for c, p in probes.items() if c in fresh}
    book = {**book, "probes": probes}
    picked = list(chosen(book, fresh, now, reach, settings))
    if len(probes) < settings.probes:  # somebody is looked for
        book = {**book, "seen": seen_with(book["seen"], fresh, now)}
    requests = {
        (client, name): _request(book, fresh[client], name, view)
        for client in picked
        for name in candidates.names(settings)
    }
    involved = {*picked, *(client for client, _ in checks)}
    return Plan(book, checks, requests, {client: fresh[client] for client in sorted(involved)})


def conclude(
    made: Plan,
    fits: Mapping[Key, Fit],
    changes: Sequence[Params],
    view: ServerView,
    inversion: Inversion,
    max_growth: float,
    depth: int,
) -> tuple[Book, list[Note]]:
    """Return the book after a plan was carried out, and the notes of it.

    Args:
        made: The plan.
        fits: What was found for its fits; empty if nothing could be fitted.
        changes: What its trainings changed, in their order.
        view: The server.
        inversion: How surrogates are fitted.
        max_growth: Estimates that grew more than this would not be used and teach nothing; 0 for
            no limit.
        depth: How many past updates a fit may use.
    """
    book, notes = _compared(made, changes, view, max_growth)
    if not fits:
        return book, notes
    explained = dict(
        zip(
            (key for key, _ in _found(fits, inversion)),
            changes[len(made.checks) :],
            strict=True,
        )
    )
    probes = dict(book["probes"])
    for client in sorted({client for client, _ in fits}):
        update = made.fresh[client]
        own = {name: fit for (c, name), fit in fits.items() if c == client}
        parts = {name: explained.get((client, name)) for name in own}
        probes[client] = _fitted(probes.get(client, {}), update, own, parts, depth)
        notes.extend(_probed(update, name, fit) for name, fit in own.items())
    bases = {**book["bases"], str(view.version): dict(view.params)}
    used = {s["version"] for p in probes.values() for s in p["sent"]} if depth else ()
    book = {
        **book,
        "probes": dict(sorted(probes.items())),
        "seen": {c: v for c, v in book["seen"].items() if c not in probes},
        "bases": {str(v): bases[str(v)] for v in sorted(used)},
        "fits": book["fits"] + len(fits),
    }
    return book, notes


def _compared(
    made: Plan, changes: Sequence[Params], view: ServerView, max_growth: float
) -> tuple[Book, list[Note]]:
    """Compare what the surrogates of probes make of this version with what the probes sent."""
    book, notes = made.book, list[Note]()
    found = dict(zip(made.checks, changes, strict=False))
    for client in sorted({client for client, _ in made.checks}):
        probe: Probe = book["probes"][client]
        version, stale = version_of(probe), probe["sent"][-1]["delta"]
        truth = made.fresh[client].delta
        if size_fault(truth, view.params):  # an update that nobody could learn from
            continue
        for name, of in sorted(probe["surrogates"].items()):
            estimate = stale  # as a conversion falls back to it
            if of:
                change = found[client, name]
                if "explained" in of:
                    change = with_residual(change, of["explained"], stale)
                elif view.tools.model is not None:
                    change = with_stale_embedding(view.tools.model, change, stale)
                grown = max_growth and not norm(change) <= max_growth * norm(stale)
                estimate = stale if grown or size_fault(change, view.params) else change
            pair = pair_of(
                vector_of(stale),
                vector_of(estimate),
                vector_of(truth),
                lag=view.version - version,
                updates=probe["updates"],
                fitted=version,
                by=name,
            )
            if pair is not None:
                book = with_pair(book, client, pair)
                if estimate is not stale:
                    notes.append(note_of(client, view.version, pair))
        probe = {**probe, "lag": view.version - version}
        book = {**book, "probes": {**book["probes"], client: probe}}
    return book, notes


def _request(book: Book, update: Update, name: str, view: ServerView) -> Request:
    probe = book["probes"].get(update.client_id, {"sent": [], "surrogates": {}})
    bases = book["bases"]
    past = [
        (bases[str(s["version"])], s["delta"]) for s in probe["sent"] if str(s["version"]) in bases
    ]
    warm = _surrogate(probe, name) if probe["surrogates"].get(name) else None
    seed = derive(view.rng.initial_seed(), "probe", update.client_id, view.version)
    return Request(view.params, update.delta, update.num_examples, past, warm, seed)


def _fitted(
    probe: Probe,
    update: Update,
    fits: Mapping[str, Fit],
    explained: Mapping[str, Params | None],
    depth: int,
) -> Probe:
    """Return a probe after its fits."""
    sent = [*probe.get("sent", ()), {"version": update.base_version, "delta": dict(update.delta)}]
    surrogates: dict[str, Any] = {}
    for name, fit in fits.items():
        surrogates[name] = {}
        if fit.surrogate is not None:
            part = explained[name]
            more = {} if part is None else {"explained": dict(part)}
            surrogates[name] = {"x": fit.surrogate.x, "y_logits": fit.surrogate.y_logits, **more}
    return {
        "sent": sent[-max(depth, 1) :],
        "num_examples": update.num_examples,
        "updates": probe.get("updates", 0) + 1,
        "lag": 0,
        "seen": update.base_version,
        "surrogates": surrogates,
    }


def _found(fits: Mapping[Key, Fit], inversion: Inversion) -> Iterator[tuple[Key, Surrogate]]:
    """Yield the surrogates that were just fitted, if what they do not explain is to be known."""
    if inversion.residual:
        yield from ((k, fit.surrogate) for k, fit in fits.items() if fit.surrogate is not None)


def _surrogate(probe: Probe, name: str) -> Surrogate:
    of = probe["surrogates"][name]
    return Surrogate(of["x"], of["y_logits"])


def _probed(update: Update, name: str, fit: Fit) -> Note:
    detail = {
        "loss": fit.loss,
        "iterations": len(fit.losses),
        "seconds": fit.seconds,
        "start": "warm" if fit.warm else "cold",
        **({"by": name} if name else {}),
    }
    return Note("probed", update.client_id, update.base_version, detail)
