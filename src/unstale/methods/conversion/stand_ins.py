"""Standing in: what an absent client would send today, from its surrogate.

A client that works on one model at a time answers once in τ rounds. In between, the server
trains today's model on the client's surrogate and uses the result in its place, whenever
the round's draw picks the client. The *age* of a stand-in is the number of versions since
the one that the client's newest known update was trained from. What earlier stand-ins were
worth decides on weight and size of later ones: `stand_in_trust.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from unstale.inversion import Inversion, Surrogate, SurrogateTraining
from unstale.inversion.target import size_fault
from unstale.methods.conversion.client_memory import Entry, surrogate_before, surrogate_of
from unstale.methods.conversion.settings import StandIn
from unstale.methods.conversion.stand_in_trust import share_of, with_check
from unstale.params import Params, norm
from unstale.updates import Note, ServerView, Update

Clients = Mapping[str, Entry]


class Check(NamedTuple):
    """A surrogate that has stood in for a client, to be compared with the client's own update."""

    update: Update
    base: Params
    """The weights that the update was trained from."""
    surrogate: Surrogate
    made_from: int
    """The version of the update that the surrogate was fitted to."""
    num_examples: int
    """The number of examples of that update: the surrogate's recipe follows from it."""
    is_newest: bool
    """Whether it still stands in; otherwise it is the one of before."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The surrogates that a round trains for stand-ins, and as a check of earlier ones."""

    shares: Mapping[str, float]
    """The absent clients to stand in for, each with what its stand-in is worth."""
    checks: Sequence[Check]
    """What is compared with own updates of clients that were stood in for."""

    def __bool__(self) -> bool:
        return bool(self.shares or self.checks)

    def trainings(
        self, clients: Clients, view: ServerView, inversion: Inversion
    ) -> list[SurrogateTraining]:
        """Return the trainings, those of the stand-ins first."""

        def training(
            start: Params, surrogate: Surrogate | None, examples: int
        ) -> SurrogateTraining:
            assert surrogate is not None  # noqa: S101  (`plan` takes only clients that have one)
            recipe = inversion.local_for(view.local, examples)
            return SurrogateTraining(start, surrogate, recipe, inversion.ensemble)

        standing = [clients[client] for client in self.shares]
        return [
            *(training(view.params, surrogate_of(e), e["num_examples"]) for e in standing),
            *(training(c.base, c.surrogate, c.num_examples) for c in self.checks),
        ]

    def newest_checked(self, changes: Sequence[Params]) -> list[tuple[Update, Params]]:
        """Return own updates, each with what the newest surrogate of its client made.

        Args:
            changes: What the trainings of the plan changed, in their order.
        """
        found = zip(self.checks, changes[len(self.shares) :], strict=True)
        return [(check.update, change) for check, change in found if check.is_newest]


@dataclass(frozen=True, slots=True, eq=False)
class Concluded:
    """What became of a plan."""

    clients: dict[str, Entry]
    """What is known of all clients now."""
    updates: list[Update] = field(default_factory=list)
    """The stand-ins."""
    notes: list[Note] = field(default_factory=list)


def plan(updates: Sequence[Update], clients: Clients, view: ServerView, settings: StandIn) -> Plan:
    """Return what a round trains for absent clients, and for those that are back."""
    shares = {client: share_of(client, clients, view.version, settings) for client in view.absent}
    checks: list[Check] = []
    for update in updates:
        entry = clients.get(update.client_id, {})
        if _is_to_be_checked(entry, update):
            fresh = update.staleness(view.version) == 0
            base = view.params if fresh else view.history(update.base_version)
            if base is not None:
                checks += _checks_of(entry, update, base)
    return Plan({client: share for client, share in shares.items() if share > 0}, checks)


def conclude(
    made: Plan,
    changes: Sequence[Params],
    clients: Clients,
    view: ServerView,
    max_growth: float,
) -> Concluded:
    """Return the stand-ins of a plan, and compare own updates with earlier ones.

    Args:
        made: The plan.
        changes: What its trainings changed, in their order.
        clients: What is known of all clients.
        view: The server.
        max_growth: A stand-in is not used if its norm is more than this many times that of the
            client's newest known update; 0 for no limit.
    """
    done = Concluded(dict(clients))
    for (client, share), change in zip(made.shares.items(), changes, strict=False):
        entry = clients[client]
        weight, scale = min(share, 1.0), max(share, 1.0)
        if scale > 1:
            change = {name: scale * part for name, part in change.items()}
        grown = max_growth and not norm(change) <= max_growth * entry["norm"]
        if grown or size_fault(change, view.params):
            continue
        done.clients[client] = {**entry, "stood_in": entry.get("stood_in", 0) + 1}
        examples = entry["num_examples"]
        done.updates.append(Update(client, view.version, change, examples, weight, stand_in=True))
        detail = {"age": view.version - entry["version"], "weight": weight}
        if scale > 1:
            detail["scale"] = scale
        done.notes.append(Note("stood_in", client, view.version, detail))
    for check, change in zip(made.checks, changes[len(made.shares) :], strict=True):
        client = check.update.client_id
        entry, notes = with_check(done.clients[client], check.update, check.made_from, change)
        done.clients[client] = {**entry, "stood_in": 0}
        done.notes.extend(notes)
    return done


def _is_to_be_checked(entry: Entry, update: Update) -> bool:
    """Return whether a client was stood in for since its last update, and this one is newer."""
    newer = update.base_version > entry.get("version", update.base_version)
    return bool(entry.get("stood_in")) and "x" in entry and newer and not update.stand_in


def _checks_of(entry: Entry, update: Update, base: Params) -> list[Check]:
    """Return the checks of a client's surrogates, the older one first."""
    found = []
    if (surrogate := surrogate_before(entry)) is not None:
        old = entry["before"]
        made_from, examples = old["version"], old["num_examples"]
        found.append(Check(update, base, surrogate, made_from, examples, is_newest=False))
    if (surrogate := surrogate_of(entry)) is not None:
        made_from, examples = entry["version"], entry["num_examples"]
        found.append(Check(update, base, surrogate, made_from, examples, is_newest=True))
    return found
