"""`LivePage`: the report page of run folders, kept in memory and made again when lines come.

It writes nothing into the folders.
"""

import hashlib
import html
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unstale.errors import UnstaleError
from unstale.report import read_run
from unstale.report.compare import compare
from unstale.report.context import Context
from unstale.report.html import build_comparison, build_page
from unstale.run_folder import RunFolder
from unstale.watch.folder import WatchedFolder
from unstale.watch.state import RunState

# A page is not made again before so many times what the last one took: the run needs the CPU.
_PAUSE = 9.0
_FILES = ("config.json", "summary.json", "tuning.json", "surrogates/*/*.json")
_LINES = ("rounds/*/seed-*.jsonl", "rounds/*/seed-*.jsonl.gz")
_EMPTY = (
    '<!doctype html><html lang="en"><meta charset="utf-8">'
    '<meta name="color-scheme" content="light dark"><title>Unstale</title>'
    '<body style="font: 1.0625rem/1.6 system-ui, sans-serif; margin: 3rem auto; max-width: 40rem; '
    'padding: 0 1rem"><p>{}</p></body></html>'
)


class LivePage:
    """One page of run folders, as `unstale report` makes it, without its PNGs.

    Args:
        folders: The run folders; with several the page compares those in which there is a run.
        says: Turns a state into a sentence.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        says: Callable[[RunState], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folders = [Path(folder) for folder in folders]
        self._watched = [WatchedFolder(folder) for folder in self._folders]
        self._says = says
        self._clock = clock
        self._lock = threading.Lock()  # the server asks from several threads
        self._page = ""
        self._made_of: tuple[str, bool] | None = None
        self._not_before = 0.0

    def state(self) -> dict[str, Any]:
        """Return how far the runs are, in words, and the version of the page that is to be had."""
        with self._lock:
            states = [watched.look() for watched in self._watched]
            self._refresh(ended=all(state.status == "ended" for state in states))
            return {
                "version": hashlib.sha256(self._page.encode("utf-8", "replace")).hexdigest()[:16],
                "status": _worst(states),
                "title": " · ".join(state.title or state.folder.name for state in states),
                "says": [self._says(state) for state in states],
            }

    def html(self) -> str:
        """Return the page as it was when `state` was asked last."""
        with self._lock:
            if not self._page:
                self._refresh(ended=False)
            return self._page

    def _refresh(self, *, ended: bool) -> None:
        """Make the page anew if anything has changed and the last one is old enough."""
        made_of = (_fingerprint(self._folders), ended)
        now = self._clock()
        # The last state of a run is shown at once.
        if made_of == self._made_of or (now < self._not_before and not ended):
            return
        self._made_of = made_of
        try:
            self._page = _build([folder for folder in self._folders if RunFolder(folder).is_run])
        except (UnstaleError, OSError, ValueError) as error:
            # Files that are written one after the other may not fit together for a moment.
            if not self._page:
                self._page = _EMPTY.format(html.escape(str(error)))
        self._not_before = self._clock() + _PAUSE * (self._clock() - now)


def _build(folders: Sequence[Path]) -> str:
    if not folders:
        return _EMPTY.format("There is no run in the folder yet. It appears here when it begins.")
    with _half_lines_unsaid():
        runs = [read_run(folder) for folder in folders]
    if len(runs) == 1:
        return build_page(Context.of(runs[0]))
    return build_comparison(compare(folders, runs))


@contextmanager
def _half_lines_unsaid() -> Iterator[None]:
    """Do not log that a last line was cut off: it is being written."""
    log = logging.getLogger("unstale.report.read")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _fingerprint(folders: Sequence[Path]) -> str:
    found = hashlib.sha256()
    for folder in folders:
        paths = [path for pattern in (*_FILES, *_LINES) for path in folder.glob(pattern)]
        for path in sorted(paths):
            try:
                seen = path.stat()
            except OSError:
                continue  # it was replaced at this moment
            found.update(f"{path} {seen.st_size} {seen.st_mtime_ns} {seen.st_ino}\n".encode())
    return found.hexdigest()


def _worst(states: Sequence[RunState]) -> str:
    """Return the status that wants the most attention."""
    order = ("quiet", "running", "starting", "waiting", "ended")
    return min((state.status for state in states), key=order.index)
