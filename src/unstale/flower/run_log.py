"""The run folder of a server on Flower: of the same form as the simulator's.

So `unstale report` makes the same table, plots and page of it, also while the run
goes on. Per round there is one JSON line, lines in the server's log, and, where
wanted, scalars for sinks.
"""

import dataclasses
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from unstale.errors import RunError
from unstale.files import write_json
from unstale.flower.round_line import Evaluation, Refusal, round_line
from unstale.flower.run_config import ENGINE, as_json, changed_settings, resolved_config, version_of
from unstale.flower.server_log import join_flowers_log, log_round
from unstale.methods import Method
from unstale.run_folder import (
    Lines,
    Round,
    RunFolder,
    describe_environment,
    write_summary,
    write_surrogates,
)
from unstale.server import Server
from unstale.server.report import Report
from unstale.sinks import Feed, Sink, as_sinks

logger = logging.getLogger(__name__)


class RunLog:
    """Writes down what a server on Flower does, round by round.

    Args:
        folder: The run folder; one process at a time works in it.
        method: What becomes of stale updates: a method, or its name.
        seed: The server's.
        config: All settings, for the record: `rounds` (how many are planned; 0 if that is
            open), `name`, `title` and `description` for the page, `evaluate` with `target`
            (an accuracy in the affected classes to hold), `window` (the rounds that it is
            smoothed over) and `affected` (positions of the classes that slow nodes hold), and
            whatever else should be remembered.
        device: Where the server's weights are.
        sinks: Where rounds and summary also go while the run goes on; by name or as an object.

    Raises:
        ConfigError: If a sink is none, or its library is not installed.

    Example:
        >>> log = RunLog("runs/site-a", method="convert", seed=0, config={"rounds": 50})
        >>> log.label
        'convert'
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        method: str | Method,
        seed: int = 0,
        config: Mapping[str, Any] | None = None,
        device: torch.device | str = "cpu",
        sinks: Sequence[Sink | str] = (),
    ) -> None:
        self.folder = RunFolder(Path(folder))
        self.seed = seed
        name = method if isinstance(method, str) else method.name
        # The label is also the name of a folder.
        self.label = re.sub(r"[^\w.-]+", "_", name).strip(".") or "method"
        settings = {} if isinstance(method, str) else as_json(method.settings)
        self.config = resolved_config(
            self.folder.path.absolute().name,
            as_json(config or {}),
            {"name": name, "label": self.label, **settings},
            seed,
        )
        self.rounds = int(self.config["rounds"])
        self._device = torch.device(device)
        self._lines = Lines(self.folder.lines_path(self.label, seed))
        self._feed = Feed(as_sinks(sinks), self.folder)
        # Rounds that sinks have not got yet.
        self._untold: list[Round] = []

    def begin(self, resume_at: int | None = None) -> None:
        """Open the folder for a new run, or for one that goes on.

        Args:
            resume_at: The last round that the restored server has done; what was logged
                beyond it is cut. None for a new run.

        Raises:
            RunError: If another process works here, if a new run would overwrite one, or if
                the run here is one of another method or seed.
        """
        join_flowers_log()
        self.folder.lock()
        try:
            self._open(resume_at)
        except BaseException:
            self.folder.unlock()
            raise
        self.tell_sinks()

    def _open(self, resume_at: int | None) -> None:
        folder = self.folder
        if resume_at is None and folder.is_run:
            raise RunError(
                f"A new run should have a folder of its own. {folder.path} holds one already. "
                "Go on with it (`resume=True`), or choose another folder."
            )
        if folder.is_run:
            changed = changed_settings(folder, self.config)
            if changed:
                logger.info("Settings that differ from before: %s", ", ".join(changed))
        # Until the end comes again this run is an unfinished one.
        folder.summary_path.unlink(missing_ok=True)
        (folder.path / "timing.json").unlink(missing_ok=True)
        # A resumed run brings sinks up to date with what is there.
        self._untold = self._cut(resume_at or 0)
        kept = len(self._untold)
        environment = folder.path / "environment.json"
        if not environment.is_file():
            described = describe_environment(self._device, "")
            write_json(environment, {**described, "flwr": version_of("flwr")})
        write_json(folder.config_path, self.config)
        many = f"{self.rounds} rounds" if self.rounds else "rounds without end"
        if resume_at is None:
            logger.info("New run in %s: %s, %s", folder.path, self.label, many)
            return
        logger.info("The run in %s goes on after round %d: %s", folder.path, resume_at, many)
        if kept < resume_at:
            logger.warning("  the lines of %d rounds are missing", resume_at - kept)

    def _cut(self, last: int) -> list[Round]:
        """Cut the lines after a round and return those that are left."""
        try:
            return self._lines.cut(last)
        except RunError as error:
            # What happened cannot be repeated as in the simulator, and serving matters more.
            aside = self._lines.path.with_suffix(".damaged.jsonl")
            logger.warning("The lines so far are set aside as %s. %s", aside.name, error)
            self._lines.path.replace(aside)
            return self._lines.cut(0)

    def round(
        self,
        report: Report,
        *,
        round: int,
        evaluation: Evaluation,
        answered: Sequence[str],
        late: Mapping[str, int],
        working: Mapping[str, int],
        refused: Sequence[Refusal],
        seconds: float,
    ) -> Round:
        """Write down one round and return its line; see `round_line` for what is what.

        The line is on the disk when this returns. So call it before the checkpoint of the
        round is written: a line too many is cut on resume, one too few cannot be made again.
        """
        line = round_line(
            report,
            round=round,
            evaluation=evaluation,
            answered=answered,
            late=late,
            working=working,
            refused=refused,
            seconds=seconds,
        )
        line = dataclasses.replace(line, method=self.label, seed=self.seed)
        self._lines.append(line)
        self._lines.flush()
        self._untold.append(line)
        log_round(line, self.rounds)
        return line

    def tell_sinks(self) -> None:
        """Hand what was written down to the sinks.

        To be called after the checkpoint of a round: a round that a crash takes back is then one
        that no sink has got.
        """
        untold, self._untold = self._untold, []
        for line in untold:
            self._feed.tell(self.label, self.seed, line)

    def surrogates(self, server: Server) -> None:
        """Write what some of the server's surrogates look like, if its `storage` says so."""
        if not server.settings.storage.surrogates:
            return
        path = self.folder.surrogates_path(self.label, self.seed)
        write_surrogates(path, server.surrogates(), server.inputs)

    def finish(self, facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Write the summary and the times of all rounds, close the log, and return the summary.

        Args:
            facts: More to remember of the whole run, such as counts of dropped replies; they
                are in `summary.json` under the engine's name.
        """
        more = {ENGINE: as_json(facts)} if facts else None
        summary = write_summary(self.folder, more)
        self.tell_sinks()
        self._feed.finish(self.label, self.seed)
        logger.info("Run done. Its report: unstale report %s", self.folder.path)
        self.close()
        return summary

    def close(self) -> None:
        """Stop writing and let others work in the folder; the run may be resumed."""
        self._feed.close()
        self.folder.unlock()

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
