"""Updates that were accepted and wait until what can be done ahead for them is done."""

import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass

from torch import nn

from unstale.errors import ConfigError, ModelError
from unstale.executors.background import Background
from unstale.inversion import Fit
from unstale.methods.conversion.parallel import structure_of
from unstale.methods.conversion.prefit import Preparation, fit_ahead
from unstale.updates import Prepared, Update

log = logging.getLogger(__name__)

# An update's client and base version.
Key = tuple[str, int]
# What can be done ahead for an update that came at a version; None for nothing.
Prepare = Callable[[Update, int], Preparation | None]


@dataclass(slots=True, eq=False)
class _Entry:
    update: Update
    since: int
    preparation: Preparation | None = None
    """None until it is begun."""
    future: Future[Fit] | None = None

    @property
    def key(self) -> Key:
        return self.update.client_id, self.update.base_version


class Held:
    """The updates that wait, in the order in which they came.

    Of each client one is fitted at a time, the oldest first, and the next one is begun
    when that one has taken part in a round: it starts from what was found for it.

    Args:
        background: Where fits are made; None where nothing is held.
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
        """Return who waits: client and base version."""
        return list(self._entries)

    def versions(self, without: Collection[Key] = ()) -> set[int]:
        """Return the base versions of those that wait, some left out."""
        return {key[1] for key in self._entries if key not in without}

    def take(self, update: Update, since: int, prepare: Prepare) -> bool:
        """Hold an update if there is something to prepare and room for it."""
        if self._background is None or len(self) >= self._background.max_held:
            return False
        entry = _Entry(update, since)
        if not self._is_next(entry) or self._begin(entry, prepare):
            self._entries[entry.key] = entry
            return True
        return False

    def resume(self, waiting: Iterable[tuple[Update, int]], prepare: Prepare) -> list[Update]:
        """Hold what was held when a server was saved; return those for the next step."""
        return [update for update, since in waiting if not self.take(update, since, prepare)]

    def ready(self) -> dict[Key, tuple[Update, Prepared | None]]:
        """Return those whose preparation has ended, well or not; they still count as held."""
        return {
            key: (entry.update, _outcome(entry))
            for key, entry in self._entries.items()
            if entry.future is not None and entry.future.done()
        }

    def drop(self, keys: Iterable[Key], prepare: Prepare) -> list[Update]:
        """Let those go that have taken part; begin what waited for them.

        Returns:
            Updates for which there is nothing to prepare any more: they are for the next step.
        """
        for key in keys:
            del self._entries[key]
        left: list[Update] = []
        for entry in list(self._entries.values()):
            if entry.future is None and self._is_next(entry) and not self._begin(entry, prepare):
                del self._entries[entry.key]
                left.append(entry.update)
        return left

    def _is_next(self, entry: _Entry) -> bool:
        """Tell whether no earlier update of the same client waits."""
        first = next((e for e in self._entries.values() if e.key[0] == entry.key[0]), entry)
        return first is entry

    def _begin(self, entry: _Entry, prepare: Prepare) -> bool:
        if self._background is None:
            return False
        try:
            entry.preparation = prepare(entry.update, entry.since)
        except Exception as error:  # the step will meet it again, where it can be told
            log.warning("The update of '%s' could not be prepared: %s", entry.key[0], error)
        if entry.preparation is None:
            return False
        entry.future = self._background.submit(fit_ahead, self._structure, entry.preparation)
        return True


def _outcome(entry: _Entry) -> Prepared | None:
    """Return what came of a preparation; None for an update to be converted in the step."""
    if entry.future is None or entry.preparation is None or entry.future.cancelled():
        return None
    error = entry.future.exception()
    if error is None:
        fit = entry.future.result()
    elif isinstance(error, ConfigError | ModelError):
        return None  # to be mended by whoever wrote it: the step raises it
    else:
        reason = f"the fit in the background failed: {str(error) or type(error).__name__}"
        log.warning("For client '%s' %s", entry.key[0], reason)
        fit = Fit(None, math.nan, (), 0.0, reason=reason)
    return Prepared(entry.preparation.request, fit, entry.since)
