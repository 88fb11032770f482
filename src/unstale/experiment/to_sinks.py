"""Progress that also hands every round to sinks."""

from dataclasses import dataclass, field
from pathlib import Path

from unstale.experiment.config import ExperimentConfig
from unstale.experiment.progress import Progress, announce
from unstale.run_folder import Round
from unstale.sinks import Feed


@dataclass(slots=True)
class ToSinks:
    """Shows a run's progress and feeds its sinks.

    On resume the rounds of earlier processes are told again, so sinks that lack some get them.
    """

    shown: Progress
    """Who shows it."""
    feed: Feed
    """The sinks."""
    rounds: int = field(default=0, init=False)
    """The number of rounds of each method and seed."""

    def begin(self, config: ExperimentConfig, folder: Path) -> None:
        """The run starts or goes on."""
        self.rounds = config.rounds
        self.shown.begin(config, folder)

    def announce(self, text: str) -> None:
        """Something is said of the run."""
        announce(self.shown, text)

    def advance(self, label: str, seed: int, line: Round) -> None:
        """A round is done, and its line is in the folder."""
        self.shown.advance(label, seed, line)
        self.feed.tell(label, seed, line)
        if line.number == self.rounds:
            self.feed.finish(label, seed)
