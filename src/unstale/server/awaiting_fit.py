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

# The fit that can be computed for an update that came at a version; None for none.
JobOf = Callable[[Update, int], FitJob | None]


@dataclass(slots=True, eq=False)
class _Entry:
    update: Update
    since: int
    job: FitJob | None = None
    """None until its fit is begun."""
    future: Future[Fit] | None = None


class AwaitingFit:
    """The updates that wait for their fit, in the order in which they came.

    Of each client one update is fitted at a time, the oldest first. The next one is begun
    when that one has taken part in a round, since it starts from the surrogate found for it.

    Args:
        background: Where fits are computed; None where no update ever waits.
        model: The model's structure.
    """

    def __init__(self, background: Background | None, model: nn.Module | None) -> None:
        # A copy: a model can be trained by one thread at a time.
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
        """Who waits: client and base version."""
        return list(self._entries)

    def versions(self, without: Collection[Key] = ()) -> set[int]:
        """Return the base versions of those that wait, some left out."""
        return {key[1] for key in self._entries if key not in without}

    def take(self, update: Update, since: int, job_of: JobOf) -> bool:
        """Let an update wait if there is a fit to compute and room for it."""
        if self._background is None or len(self) >= self._background.max_waiting:
            return False
        entry = _Entry(update, since)
        if not self._is_next(entry) or self._begin(entry, job_of):
            self._entries[update.key] = entry
            return True
        return False

    def resume(self, waiting: Iterable[tuple[Update, int]], job_of: JobOf) -> list[Update]:
        """Let those wait that did when a server was saved; return the others."""
        return [update for update, since in waiting if not self.take(update, since, job_of)]

    def ready(self) -> dict[Key, tuple[Update, PrefitResult | None]]:
        """Return those whose fit has ended, well or not; they count as waiting until `drop`."""
        return {
            key: (entry.update, _result(entry))
            for key, entry in self._entries.items()
            if entry.future is not None and entry.future.done()
        }

    def drop(self, keys: Iterable[Key], job_of: JobOf) -> list[Update]:
        """Let those go that have taken part in a round, and begin the fits they held up.

        Returns:
            Updates that no longer need a fit: they are for the next step.
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
        """Tell whether no earlier update of the same client waits."""
        client = entry.update.client_id
        same = (e for e in self._entries.values() if e.update.client_id == client)
        return next(same, entry) is entry

    def _begin(self, entry: _Entry, job_of: JobOf) -> bool:
        if self._background is None:
            return False
        try:
            entry.job = job_of(entry.update, entry.since)
        except Exception as error:  # the step will meet it again, where it can be told
            client = entry.update.client_id
            log.warning("No fit could be begun for the update of '%s': %s", client, error)
        if entry.job is None:
            return False
        entry.future = self._background.submit(compute_fits, self._structure, entry.job)
        return True


def _result(entry: _Entry) -> PrefitResult | None:
    """Return what came of a fit; None for an update that is to be converted in the step."""
    if entry.future is None or entry.job is None or entry.future.cancelled():
        return None
    error = entry.future.exception()
    if error is None:
        fit = entry.future.result()
    elif isinstance(error, ConfigError | ModelError):
        return None  # a mistake in the settings or the model: the step raises it
    else:
        reason = f"the fit in the background failed: {str(error) or type(error).__name__}"
        log.warning("For client '%s' %s", entry.update.client_id, reason)
        fit = Fit(None, math.nan, (), 0.0, reason=reason)
    return PrefitResult(entry.job.request, fit, entry.since)
