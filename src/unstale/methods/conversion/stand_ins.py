r"""Standing in: what an absent client would send today, from its surrogate.

A client that works on one model at a time answers once in τ rounds. In between, the server
trains today's model on the client's surrogate and uses the result in its place, whenever
the round's draw picks the client. The *age* of a stand-in is the number of versions since
the one that the client's newest known update was trained from.

When the client's next update Δ arrives, the server trains the old surrogate once more, from
the version that Δ was trained from, and compares the result s with Δ. The least-squares
share of s in Δ,

$$ c = \frac{\langle s, \Delta\rangle}{\lVert s\rVert^2} \in [0, 1], $$

is 1 if the stand-in was right and 0 if it had nothing of Δ. With the age a at which this was
found, the weight of the client's later stand-ins at an age a' is

$$ 1 - (1 - c)\,\frac{a'}{a} \in [0, 1]. $$
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from unstale.inversion import Inversion, SurrogateTraining
from unstale.inversion.target import size_fault
from unstale.methods.conversion.client_memory import Entry, surrogate_of
from unstale.methods.conversion.settings import StandIn
from unstale.params import Params, cosine_distance, flatten, l1_error, norm
from unstale.updates import Note, ServerView, Update

# Comparisons that are remembered of each client, the newest ones.
MOST_CHECKS = 4

Clients = Mapping[str, Entry]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The surrogates that a round trains for stand-ins, and as a check of earlier ones."""

    weights: Mapping[str, float]
    """The absent clients to stand in for, each with the weight of its update."""
    checks: Sequence[tuple[Update, Params]]
    """Own updates of clients that were stood in for, each with the weights it started from."""

    def __bool__(self) -> bool:
        return bool(self.weights or self.checks)

    def trainings(
        self, clients: Clients, view: ServerView, inversion: Inversion
    ) -> list[SurrogateTraining]:
        """Return the trainings, those of the stand-ins first."""

        def training(client: str, start: Params) -> SurrogateTraining:
            entry = clients[client]
            surrogate = surrogate_of(entry)
            assert surrogate is not None  # noqa: S101  (`plan` takes only clients that have one)
            recipe = inversion.local_for(view.local, entry["num_examples"])
            return SurrogateTraining(start, surrogate, recipe)

        return [
            *(training(client, view.params) for client in self.weights),
            *(training(update.client_id, base) for update, base in self.checks),
        ]


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
    weights = {client: weight_of(client, clients, view.version, settings) for client in view.absent}
    checks = []
    for update in updates:
        if _is_to_be_checked(clients.get(update.client_id, {}), update):
            fresh = update.staleness(view.version) == 0
            base = view.params if fresh else view.history(update.base_version)
            if base is not None:
                checks.append((update, base))
    return Plan({client: weight for client, weight in weights.items() if weight > 0}, checks)


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
    for (client, weight), change in zip(made.weights.items(), changes, strict=False):
        entry = clients[client]
        grown = max_growth and not norm(change) <= max_growth * entry["norm"]
        if grown or size_fault(change, view.params):
            continue
        done.clients[client] = {**entry, "stood_in": entry.get("stood_in", 0) + 1}
        examples = entry["num_examples"]
        done.updates.append(Update(client, view.version, change, examples, weight, stand_in=True))
        detail = {"age": view.version - entry["version"], "weight": weight}
        done.notes.append(Note("stood_in", client, view.version, detail))
    for (update, _), change in zip(made.checks, changes[len(made.weights) :], strict=True):
        entry, note = checked(done.clients[update.client_id], update, change)
        done.clients[update.client_id] = entry
        done.notes.extend(note)
    return done


def weight_of(client: str, clients: Clients, version: int, settings: StandIn) -> float:
    """Return the weight of a client's stand-in, from 0 to 1; 0 if there is none.

    Args:
        client: The client.
        clients: What is known of all clients.
        version: The current version.
        settings: The limits on stand-ins.
    """
    entry = clients.get(client, {})
    if not settings.enabled or "x" not in entry:
        return 0.0
    age = version - entry["version"]
    if age > settings.max_age:
        return 0.0
    if not settings.checked:
        return 1.0
    # A client that was not checked yet is trusted as the others are on average.
    own = entry.get("checks") or [c for e in clients.values() for c in e.get("checks", [])]
    return float(min(max(1.0 - _rate(own) * age, 0.0), 1.0))


def _rate(checks: Sequence[Sequence[float]]) -> float:
    """Return by how much the share falls with each version of age, by least squares."""
    size = sum(age * age for age, _ in checks)
    return sum(age * (1.0 - share) for age, share in checks) / size if size else 0.0


def _is_to_be_checked(entry: Entry, update: Update) -> bool:
    """Return whether a client was stood in for since its last update, and this one is newer."""
    newer = update.base_version > entry.get("version", update.base_version)
    return bool(entry.get("stood_in")) and "x" in entry and newer and not update.stand_in


def checked(entry: Entry, update: Update, change: Params) -> tuple[Entry, Iterable[Note]]:
    """Compare a client's own update with its stand-in for the same version.

    Args:
        entry: What was known of the client before the update.
        update: The client's own update.
        change: What training the old surrogate from the update's base version changes.

    Returns:
        The entry with the result, and the note of it; none if the two cannot be compared.
    """
    age = update.base_version - entry["version"]
    made, truth = flatten(change).double(), flatten(update.delta).double()
    size = float(made @ made)
    after = {**entry, "stood_in": 0}
    if not math.isfinite(size):  # the training diverged
        return after, ()
    share = float(made @ truth) / size if size > 0 else 0.0
    share = min(max(share, 0.0), 1.0)
    after["checks"] = [*entry.get("checks", []), [age, share]][-MOST_CHECKS:]
    error, l1 = cosine_distance(change, update.delta), l1_error(change, update.delta)
    detail = {"age": age, "error": error, "l1": l1, "share": share}
    return after, [Note("checked", update.client_id, update.base_version, detail)]
