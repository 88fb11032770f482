"""Accepted updates waiting for their background fit."""

import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass

from torch import nn

from unstale.errors import ConfigError, ModelError
from unstale.executors import Background
from unstale.inversion import Fit
from unstale.methods.conversion.parallel import structure_of
from unstale.methods.conversion.prefit import FitJob, compute_fits
from unstale.updates import Key, PrefitResult, Update

log = logging.getLogger(__name__)

# Returns the fit for an update that arrived at a version, or None if there is nothing to fit.
JobOf = Callable[[Update, int], FitJob | None]


@dataclass(slots=True, eq=False)
class _Entry:
    update: Update
    since: int
    job: FitJob | None = None
    """None until the fit is submitted."""
    future: Future[Fit] | None = None


class AwaitingFit:
    """The updates that await their background fit, in the order of arrival.

    The updates of one client are fitted one after the other. The next fit is submitted when
    the update before has taken part in a round, since it starts from that update's surrogate.

    Args:
        background: Computes the fits; with None no update awaits a fit.
        model: The architecture that clients train.
    """

    def __init__(self, background: Background | None, model: nn.Module | None) -> None:
        # A copy, since two threads cannot train one module at the same time.
        able = background is not None and model is not None
        self._structure = structure_of(model) if able and model is not None else None
        self._background = background if able else None
        self._entries: dict[Key, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[Update, int]]:
        return iter([(entry.update, entry.since) for entry in self._entries.values()])

    @property
    def keys(self) -> list[Key]:
        """The keys of the updates: client id and base version."""
        return list(self._entries)

    def versions(self, without: Collection[Key] = ()) -> set[int]:
        """Return the base versions of the updates, except those with a key in `without`."""
        return {key[1] for key in self._entries if key not in without}

    def take(self, update: Update, since: int, job_of: JobOf) -> bool:
        """Add an update if there is room and a fit to compute; return whether it was added."""
        if self._background is None or len(self) >= self._background.max_waiting:
            return False
        entry = _Entry(update, since)
        if not self._is_next(entry) or self._begin(entry, job_of):
            self._entries[update.key] = entry
            return True
        return False

    def resume(self, waiting: Iterable[tuple[Update, int]], job_of: JobOf) -> list[Update]:
        """Add updates of a restored server; return those that could not be added."""
        return [update for update, since in waiting if not self.take(update, since, job_of)]

    def ready(self) -> dict[Key, tuple[Update, PrefitResult | None]]:
        """Return the updates whose fit has ended, even if it failed; `drop` removes them."""
        return {
            key: (entry.update, _result(entry))
            for key, entry in self._entries.items()
            if entry.future is not None and entry.future.done()
        }

    def drop(self, keys: Iterable[Key], job_of: JobOf) -> list[Update]:
        """Remove updates that have taken part in a round, and submit the fits behind them.

        Returns:
            Updates that turned out to need no fit; they take part in the next step.
        """
        for key in keys:
            del self._entries[key]
        left: list[Update] = []
        for entry in list(self._entries.values()):
            if entry.future is None and self._is_next(entry) and not self._begin(entry, job_of):
                del self._entries[entry.update.key]
                left.append(entry.update)
        return left

    def _is_next(self, entry: _Entry) -> bool:
        """Return whether no earlier update of the same client awaits its fit."""
        client = entry.update.client_id
        same = (e for e in self._entries.values() if e.update.client_id == client)
        return next(same, entry) is entry

    def _begin(self, entry: _Entry, job_of: JobOf) -> bool:
        if self._background is None:
            return False
        try:
            entry.job = job_of(entry.update, entry.since)
        except Exception as error:  # the step will raise it to its caller
            client = entry.update.client_id
            log.warning("Could not start a fit for the update of client '%s': %s", client, error)
        if entry.job is None:
            return False
        entry.future = self._background.submit(compute_fits, self._structure, entry.job)
        return True


def _result(entry: _Entry) -> PrefitResult | None:
    """Return the result of a fit; None if the update is to be converted in the step."""
    if entry.future is None or entry.job is None or entry.future.cancelled():
        return None
    error = entry.future.exception()
    if error is None:
        fit = entry.future.result()
    elif isinstance(error, ConfigError | ModelError):
        return None  # wrong settings or model: the step will raise it to its caller
    else:
        reason = f"the fit in the background failed: {str(error) or type(error).__name__}"
        log.warning("Client '%s': %s", entry.update.client_id, reason)
        fit = Fit(None, math.nan, (), 0.0, reason=reason)
    return PrefitResult(entry.job.request, fit, entry.since)
