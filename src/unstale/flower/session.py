"""One run of the strategy: opened new or resumed, stepped, and written down round by round."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import nn

from unstale.errors import ConfigError, RunError
from unstale.flower.decode import ReplyForm
from unstale.flower.intake import Intake
from unstale.flower.ledger import Ledger, Restored, Saved
from unstale.flower.round_line import Evaluation, Refusal, count_refusals, round_line
from unstale.flower.run_log import RunLog
from unstale.flower.server_log import join_flowers_log, log_round
from unstale.flower.work import Arrival
from unstale.flower.work_book import WorkBook
from unstale.methods.description import describe_method
from unstale.methods.server_optimizer_registry import optimizer_table
from unstale.server import Server, ServerSettings
from unstale.server.report import Report

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Attendance:
    """Which nodes took part in a round."""

    answered: list[str] = field(default_factory=list)
    """The nodes whose replies came out, late ones included."""
    late: dict[str, int] = field(default_factory=dict)
    """By how many rounds the late ones of them are late."""
    working: dict[str, int] = field(default_factory=dict)
    """The nodes that have not answered, and since how many rounds."""
    slow: list[int] = field(default_factory=list)
    """The nodes that the next round does not wait for."""


class Session:
    """The server of a run, the intake of its replies, and what is written about it.

    Args:
        server: New, or restored.
        book: The grid's book of open work; it is kept for this server from now on.
        form: What a reply should look like.
        ledger: What survives a crash.
        log: The run folder's log, if there is a folder.
        rounds: How many are planned in all.
    """

    def __init__(
        self,
        server: Server,
        book: WorkBook,
        form: ReplyForm,
        ledger: Ledger,
        log: RunLog | None,
        rounds: int,
    ) -> None:
        book.begin(server)
        self.server = server
        self.book = book
        self._intake = Intake(server, book, form, ledger)
        self._ledger = ledger
        self._log = log
        self._rounds = rounds
        self._round: int | None = None  # while nodes train in one
        self._absent: set[int] = set()  # drawn for it, and at work or away
        self._report: Report | None = None
        self._unwritten: list[Callable[[], None]] = []

    def begin(self, restored: Restored | None) -> None:
        """Write the first checkpoint of a new run, or take over what an old one left."""
        if restored is not None:
            self._intake.resume(restored)
        else:
            # Before the run's folder says that there is a run: its initial weights are drawn
            # at random, so without them nothing could go on.
            event = {"event": "started", "version": 0, "method": self.server.method.name}
            self._ledger.commit(self.server.to_tree(), event)
        if self._log is None:
            join_flowers_log()
        else:
            self._log.begin(None if restored is None else self.server.version)

    def begin_round(self, round: int, absent: Iterable[int] = ()) -> None:
        """Let what comes in from now on take part in a round, if it is due.

        Args:
            round: The round, whose cohort has been drawn.
            absent: The nodes of the cohort that work or have left.
        """
        self._round = round
        self._absent = {*absent}

    def take(self, arrival: Arrival) -> None:
        """Take in a reply as soon as it was pulled."""
        self.write_down()
        self._intake.take(arrival, was_drawn=self._round is not None)
        if self._round is not None:
            # At once, so that a server that converts in the background can begin.
            self._intake.submit_due(self._round)

    def step(self, round: int, arrivals: Sequence[Arrival]) -> None:
        """Give the server what is due and make the next version.

        Args:
            round: The round that has closed.
            arrivals: All that came out in it, errors included.
        """
        self._round = None
        self.write_down()
        self._intake.come_out(arrivals)
        absent = self._absent | {*self.book.close_unsent()}
        self._intake.submit_due(round)
        # If the round closed by its deadline before anybody answered, stand-ins alone would be the
        # whole average, and pull the model to what the absent nodes hold.
        alone = self.book.is_missing_fresh()
        self._report = self.server.step(None if alone else map(str, absent))

    def end_round(self, evaluation: Evaluation, attendance: Attendance, seconds: float) -> None:
        """End a round. It is written down when nodes have their next work: see `write_down`."""
        if self._report is None:
            raise ConfigError("A round should make a version before it ends.")
        report, intake = self._report, self._intake
        given = [entry.key for entry in self.book.given()]
        event = {
            "event": "version",
            "version": report.version,
            "updates": [list(key) for key in given],
            # Of these and earlier ones, those that still wait for their fit.
            "awaiting_fit": [list(key) for key in self.server.awaiting_fit],
            # Nobody's updates: who could not be asked, and in whose place the server made one.
            "absent": list(report.absent),
            "stand_ins": [update.client_id for update in report.updates if update.stand_in],
            "arrivals": report.arrivals,
            "changed": report.changed,
            "refused": count_refusals(report.refused, intake.refused),
        }
        self._unwritten = [
            partial(self._tell, report, evaluation, attendance, intake.refused, seconds),
            partial(
                self._ledger.commit,
                self.server.to_tree(),
                event,
                [*given, *intake.lost],
                self.book.kept_versions(),
                attendance.slow,
            ),
            *([] if self._log is None else [self._log.tell_sinks]),
        ]
        intake.next_version()
        self._report = None

    def write_down(self) -> None:
        """Write the last round's line, checkpoint and event, unless that was done or tried.

        Before anything else is decided: an update to a version that is in no checkpoint would
        be lost in a crash.
        """
        unwritten, self._unwritten = self._unwritten, []
        for write in unwritten:
            write()

    def _tell(
        self,
        report: Report,
        evaluation: Evaluation,
        attendance: Attendance,
        refused: Sequence[Refusal],
        seconds: float,
    ) -> None:
        told: dict[str, Any] = {
            "round": report.version,
            "evaluation": evaluation,
            "answered": attendance.answered,
            "late": attendance.late,
            "working": attendance.working,
            "refused": refused,
            "seconds": seconds,
        }
        if self._log is not None:
            self._log.round(report, **told)
        else:
            log_round(round_line(report, **told), self._rounds)

    def finish(self, facts: Mapping[str, Any]) -> None:
        """Write down that all rounds are done."""
        self.write_down()
        self._ledger.note("finished", version=self.server.version)
        if self._log is not None:
            self._log.surrogates(self.server)
            self._log.finish(facts)


def restored_or_none(ledger: Ledger, log: RunLog | None, resume: bool) -> Restored | None:
    """Return the run that a folder holds if it is to go on, None for a new one.

    Raises:
        RunError: If the folder holds a run that is not to go on, or what is left of one.
        CheckpointError: If none of its checkpoints is sound.
    """
    if ledger.has_checkpoint and resume:
        return ledger.restore()
    if ledger.has_traces or (log is not None and log.folder.is_run):
        what = (
            "It holds traces of one, and no checkpoint to go on from."
            if resume
            else "It holds one already. Go on with it (`resume=True`), or choose another."
        )
        raise RunError(f"A new run should have a folder of its own, not {ledger.folder}. {what}")
    if resume:
        logger.info("There is no run in %s yet: a new one begins.", ledger.folder)
    return None


def restored_server(saved: Saved, model: nn.Module, settings: ServerSettings) -> Server:
    """Return the server of a checkpoint.

    Raises:
        RunError: If the settings have another method, server optimizer or seed.
        CheckpointError: If the model is another one.
    """
    tree, versions = saved
    now, before = describe_method(settings.chosen), tree["method"]
    optimizer = optimizer_table(settings.chosen_optimizer)
    for what, found, wanted in (
        ("method", now["name"], before["name"]),
        ("method's parts", now["compensator"], before["compensator"]),
        ("aggregator", now["aggregator"], before["aggregator"]),
        ("server optimizer", optimizer, tree.get("optimizer", {"name": "plain"})),
        ("seed", settings.seed, tree["seed"]),
    ):
        if found != wanted:
            raise RunError(
                f"A run should go on with the {what} it began with: {wanted!r}. Found {found!r}. "
                "Use the same, or choose another folder."
            )
    return Server.from_tree(tree, versions, model, settings)
