"""One run of the strategy, from its start or from where another process left it."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from unstale.errors import ConfigError, RunError
from unstale.flower.admission import Admission
from unstale.flower.intake import Intake
from unstale.flower.layout import Layout
from unstale.flower.ledger import Ledger, Restored
from unstale.flower.messages import Attendance
from unstale.flower.round_line import Evaluation, Refusal, count_refusals, round_line
from unstale.flower.run_log import RunLog
from unstale.flower.server_log import join_flowers_log, log_round
from unstale.flower.work_tickets import Arrival
from unstale.server import Server
from unstale.server.report import Report

logger = logging.getLogger(__name__)


class Session:
    """The server of a run, what comes in, and all that is written about it."""

    def __init__(
        self,
        server: Server,
        layout: Layout,
        ledger: Ledger,
        log: RunLog | None,
        admission: Admission,
        rounds: int,
    ) -> None:
        self.server = server
        self.intake = Intake(server, layout, ledger, admission)
        self._ledger = ledger
        self._log = log
        self._rounds = rounds
        self._round: int | None = None  # while nodes train in one
        self._report: Report | None = None
        self._unwritten: list[Callable[[], None]] = []

    def begin(self, restored: Restored | None) -> None:
        """Write the first checkpoint of a new run, or take over what an old one left."""
        if restored is not None:
            self.intake.adopt(restored)
        else:
            # Before the run's folder says that there is a run: its initial weights are drawn
            # at random, so without them nothing could go on.
            event = {"event": "started", "version": 0, "method": self.server.method.name}
            self._ledger.commit(self.server.to_tree(), event)
        if self._log is None:
            join_flowers_log()
        else:
            self._log.begin(None if restored is None else self.server.version)

    def begin_round(self, round: int) -> None:
        """Let what comes in from now on take part in a round, if it is due."""
        self._round = round

    def take(self, arrival: Arrival) -> None:
        """Take in a reply as soon as it was pulled."""
        self.write_down()
        self.intake.take(arrival)
        if self._round is not None:
            # At once, so that a server that converts in the background can begin.
            self.intake.submit_due(self._round)

    def step(self, round: int, arrivals: Sequence[Arrival], working: Collection[int]) -> None:
        """Give the server what is due and make the next version.

        Args:
            round: The round that has closed.
            arrivals: All that came out in it, errors included.
            working: The nodes that are still at work.
        """
        self._round = None
        self.write_down()
        self.intake.come_out(arrivals)
        self.intake.release_all_but(working)
        self.intake.submit_due(round)
        self._report = self.server.step()

    def end_round(self, evaluation: Evaluation, attendance: Attendance, seconds: float) -> None:
        """End a round. It is written down when nodes have their next work: see `write_down`."""
        if self._report is None:
            raise ConfigError("A round should make a version before it ends.")
        report, intake = self._report, self.intake
        taken = [entry.key for entry in intake.taken]
        event = {
            "event": "version",
            "version": report.version,
            "updates": [list(key) for key in taken],
            # Of these and earlier ones, those that still wait for their conversion.
            "held": [list(key) for key in self.server.awaiting_fit],
            "arrivals": report.arrivals,
            "changed": report.changed,
            "refused": count_refusals(report.refused, intake.refused),
        }
        gone = [*taken, *intake.given_up]
        self._unwritten = [
            partial(self._tell, report, evaluation, attendance, intake.refused, seconds),
            partial(
                self._ledger.commit,
                self.server.to_tree(),
                event,
                gone,
                dict(intake.out),
                attendance.slow,
            ),
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
