"""Arrivals: updates that were accepted and wait for their step, and counts of those refused."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from unstale.executors import Background
from unstale.server.awaiting_fit import AwaitingFit, JobOf
from unstale.server.saved_parts import update_tree
from unstale.updates import Key, PrefitResult, Update

# What takes part in a step: updates with the results of their background fits, by key.
Ready = dict[Key, tuple[Update, PrefitResult | None]]


class Arrivals:
    """The updates that a server has accepted since its last step.

    Most of them are pending: they take part in the next step. With a background, stale ones
    that are to be converted await their fit first (`AwaitingFit`).

    Args:
        background: Computes the fits; with None no update awaits a fit.
        model: The architecture that clients train.
    """

    def __init__(self, background: Background | None, model: nn.Module | None) -> None:
        self._has_background = background is not None
        self._pending: dict[Key, Update] = {}
        self._awaiting = AwaitingFit(background, model)
        self._refused: Counter[str] = Counter()

    @property
    def awaiting_fit(self) -> list[Key]:
        """Client id and base version of the updates that await their background fit."""
        return self._awaiting.keys

    @property
    def num_awaiting_fit(self) -> int | None:
        """How many updates await their fit; None without a background."""
        return len(self._awaiting) if self._has_background else None

    @property
    def refused(self) -> dict[str, int]:
        """Updates refused since the last step, by code."""
        return dict(self._refused)

    def refuse(self, code: str) -> None:
        """Count an update that was refused."""
        self._refused[code] += 1

    def take(self, update: Update, version: int, job_of: JobOf) -> None:
        """Add an accepted update.

        Args:
            update: The update, whose tensors nobody else changes.
            version: The current version.
            job_of: Returns the fit for an update.
        """
        stale = update.staleness(version) > 0
        if not (stale and self._awaiting.take(update, version, job_of)):
            self._pending[update.key] = update

    def ready(self) -> Ready:
        """Return the updates whose background fit has ended; `stepped` removes them."""
        return self._awaiting.ready()

    def taking_part(self, ready: Ready) -> list[Update]:
        """Return the updates of the next step: what is pending, and what is `ready`."""
        return [*self._pending.values(), *(update for update, _ in ready.values())]

    def versions_awaiting(self, ready: Ready) -> set[int]:
        """Return the base versions of the updates that still await their fit."""
        return self._awaiting.versions(without=ready)

    def stepped(self, ready: Ready, job_of: JobOf) -> None:
        """Forget what has taken part in a step, and submit the fits behind it."""
        self._pending.clear()
        self._refused.clear()
        self._add(self._awaiting.drop(ready, job_of))

    def _add(self, updates: Iterable[Update]) -> None:
        self._pending.update({update.key: update for update in updates})

    def to_tree(self) -> dict[str, Any]:
        """Return everything as a tree; a fit under way is not saved but computed again."""
        waiting = [{"update": update_tree(u), "since": since} for u, since in self._awaiting]
        return {
            "refused": self.refused,
            "pending": [update_tree(update) for update in self._pending.values()],
            "awaiting_fit": waiting,
        }

    def restore(self, tree: Mapping[str, Any], job_of: JobOf) -> None:
        """Take over the result of `to_tree`, and submit the fits again."""
        self._refused = Counter(tree["refused"])
        self._add(Update(**item) for item in tree["pending"])
        waiting = [(Update(**item["update"]), item["since"]) for item in tree["awaiting_fit"]]
        self._add(self._awaiting.resume(waiting, job_of))
