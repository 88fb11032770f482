"""How a run tells of its progress; the command line listens, the library is silent."""

from pathlib import Path
from typing import Protocol

from unstale.experiment.config import ExperimentConfig
from unstale.run_folder import Round


class Progress(Protocol):
    """Who wants to know how far a run is."""

    def begin(self, config: ExperimentConfig, folder: Path) -> None:
        """The run starts or goes on."""

    def advance(self, label: str, seed: int, line: Round) -> None:
        """A round is done, now or in an earlier process."""


def announce(progress: Progress, text: str) -> None:
    """Say something of the run to whoever wants to hear it: has a method `announce(text)`."""
    hear = getattr(progress, "announce", None)
    if callable(hear):
        hear(text)


class Silent:
    """Progress that nobody looks at."""

    def begin(self, config: ExperimentConfig, folder: Path) -> None:
        """Do nothing."""

    def advance(self, label: str, seed: int, line: Round) -> None:
        """Do nothing."""
