"""`Feed`: hands a run's rounds to sinks, from a thread of its own.

A run never waits for a sink, and no sink can end or change it. What a sink has got is written
down, so that a resumed run brings it up to date and writes no round twice.
"""

import logging
import math
import os
import queue
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from unstale.errors import ConfigError, UnstaleError
from unstale.run_folder.folder import RunFolder
from unstale.run_folder.lines import Lines
from unstale.run_folder.schema import Round
from unstale.run_folder.summary import figures_of_part
from unstale.sinks.base import Sink, SinkRun, SinkWriter
from unstale.sinks.record import SinkRecord
from unstale.sinks.scalars import scalars_of, summary_scalars

logger = logging.getLogger(__name__)

# Seconds without any progress after which the end of a run does not wait for its sinks any more,
# and the variable that says otherwise.
PATIENCE, VARIABLE = 30.0, "UNSTALE_SINK_SECONDS"

# A method's label and a seed.
_Part = tuple[str, int]


class Feed:
    """The sinks of one run folder.

    Args:
        sinks: The sinks; with none, nothing is done.
        folder: The run folder, which has its config when the first round comes.
        patience: Seconds that `close` waits for a sink that does not answer; by default what the
            environment variable `UNSTALE_SINK_SECONDS` says, or 30.

    Raises:
        ConfigError: If that is no number of seconds.
    """

    def __init__(
        self, sinks: Sequence[Sink], folder: RunFolder, *, patience: float | None = None
    ) -> None:
        self._folder = folder
        self._patience = _seconds_wanted() if patience is None else patience
        self._sinks = dict(zip(_names(sinks), sinks, strict=True))
        self._records: dict[_Part, SinkRecord] = {}
        self._codes: dict[_Part, set[str]] = {}
        self._writers: dict[tuple[str, _Part], SinkWriter] = {}
        self._todo: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._done = 0

    def tell(self, label: str, seed: int, line: Round) -> None:
        """Hand over a round, now or from an earlier process; sinks that have it do not get it."""
        self._later(partial(self._write, (label, seed), line))

    def finish(self, label: str, seed: int) -> None:
        """Hand over the summary of a method and seed, all of whose lines are in the folder."""
        self._later(partial(self._finish, (label, seed)))

    def close(self) -> None:
        """Wait until sinks have got everything, or do not answer; close what is open."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._todo.put(None)
        seen = -1
        while thread.is_alive() and seen != self._done:
            seen = self._done
            thread.join(self._patience)
        if thread.is_alive():
            logger.warning(
                "Sinks should take what a run hands them. %s did not answer for %g s and is left "
                "incomplete. The run is not affected; `unstale run --resume` with the same sink "
                "brings it up to date.",
                " or ".join(self._sinks),
                self._patience,
            )

    # ---- in the thread

    def _later(self, what: Callable[[], None]) -> None:
        if not self._sinks:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="unstale-sinks", daemon=True)
            self._thread.start()
        self._todo.put(what)

    def _work(self) -> None:
        while (what := self._todo.get()) is not None:
            what()
            self._done += 1
        for name, part in list(self._writers):
            self._guarded(name, partial(self._close, name, part, None))
            self._done += 1

    def _write(self, part: _Part, line: Round) -> None:
        codes = self._codes.setdefault(part, set())
        codes.update(line.refused)
        scalars = scalars_of(line, codes)

        def write(name: str) -> None:
            if line.number > self._record(part).of(name).written:
                self._open(name, part, line.number - 1)
                self._give(name, part, line.number, scalars)

        for name in list(self._sinks):
            self._guarded(name, partial(write, name))

    def _finish(self, part: _Part) -> None:
        def finish(name: str) -> None:
            progress = self._record(part).of(name)
            if progress.finished:
                return
            lines = self._lines(part)
            figures = figures_of_part(self._folder.read_json(self._folder.config_path), lines)
            self._open(name, part, lines[-1].number if lines else 0)
            self._close(name, part, summary_scalars(figures))
            progress.finished = True
            self._record(part).write()

        for name in list(self._sinks):
            self._guarded(name, partial(finish, name))

    def _give(self, name: str, part: _Part, round: int, scalars: dict[str, float]) -> None:
        """Write a round that a sink does not have."""
        progress = self._record(part).of(name)
        if round > progress.written:
            self._writers[name, part].write(round, scalars)
            progress.written, progress.finished = round, False
            self._record(part).write()

    def _close(self, name: str, part: _Part, summary: dict[str, float] | None) -> None:
        self._writers.pop((name, part)).close(summary)

    def _record(self, part: _Part) -> SinkRecord:
        if part not in self._records:
            self._records[part] = SinkRecord.read(self._folder.sinks_path(*part))
        return self._records[part]

    def _lines(self, part: _Part) -> list[Round]:
        return Lines(self._folder.lines_path(*part)).read()

    def _open(self, name: str, part: _Part, until: int) -> None:
        """Open a sink's end, unless it is, and give it what it lacks up to a round."""
        if (name, part) in self._writers:
            return
        record = self._record(part)
        record.write()  # before anybody knows the id
        progress = record.of(name)
        writer = self._sinks[name].open(self._run(part, record.id, progress.written))
        self._writers[name, part] = writer
        progress.written = getattr(writer, "written", progress.written)
        if progress.written >= until:
            return
        codes: set[str] = set()
        for line in self._lines(part):
            codes.update(line.refused)
            if line.number <= until:
                self._give(name, part, line.number, scalars_of(line, codes))

    def _run(self, part: _Part, id: str, written: int) -> SinkRun:
        label, seed = part
        config = dict(self._folder.read_json(self._folder.config_path))
        methods = config.pop("methods", None) or []
        config.pop("seeds", None)
        own = next((m for m in methods if m.get("label") == label), {"label": label})
        name = str(config.get("name", "run"))
        settings = {**config, "method": own, "seed": seed}
        return SinkRun(id, name, label, seed, self._folder.path.absolute(), settings, written)

    def _guarded(self, name: str, what: Callable[[], None]) -> None:
        """Do something with a sink; drop the sink if that fails."""
        if name not in self._sinks:
            return
        try:
            what()
        except (Exception, SystemExit) as error:
            del self._sinks[name]
            for key in [key for key in self._writers if key[0] == name]:
                del self._writers[key]
            said = str(error) if isinstance(error, UnstaleError) else _in_words(error)
            logger.warning(
                "The sink %s failed and gets no more of this run: %s. The run goes on; all its "
                "rounds are in %s.",
                name,
                said,
                self._folder.path,
            )


def _seconds_wanted() -> float:
    said = os.environ.get(VARIABLE, str(PATIENCE))
    try:
        seconds = float(said)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= threading.TIMEOUT_MAX:
        raise ConfigError(
            f"`{VARIABLE}` should be a number of seconds of at least 0. Found {said!r}."
        )
    return seconds


def _names(sinks: Sequence[Sink]) -> list[str]:
    """Return a name for each sink: its class's, numbered from the second of a class on."""
    seen: Counter[str] = Counter()
    names = []
    for sink in sinks:
        kind = type(sink).__name__
        seen[kind] += 1
        names.append(kind if seen[kind] == 1 else f"{kind}-{seen[kind]}")
    return names


def _in_words(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}".rstrip(".: ")
