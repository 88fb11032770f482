"""Progress of `simulate` on stderr: as of the command line, and in notebooks as plain lines."""

import sys
from pathlib import Path

from rich.console import Console

from unstale.cli.progress import LiveProgress
from unstale.experiment import ExperimentConfig
from unstale.reproduce.remaining import TimeLeft, in_words
from unstale.run_folder import Round


class SimulationProgress(LiveProgress):
    """Shows each method's round and accuracy, and in plain lines also the time left."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console or stderr_console())
        self._left = TimeLeft({})

    def begin(self, config: ExperimentConfig, folder: Path) -> None:
        """Say what runs and where."""
        each = config.rounds * len(config.seeds)
        self._left = TimeLeft({method.label: each for method in config.methods})
        super().begin(config, folder)

    def advance(self, label: str, seed: int, line: Round) -> None:
        """Take note of a round."""
        self._left.advance(label, line.seconds)
        super().advance(label, seed, line)

    def _line_end(self) -> str:
        seconds = self._left.seconds()
        return f" ({in_words(seconds)})" if seconds else ""


def stderr_console() -> Console:
    """Return a console on stderr: live in a terminal, plain lines in a notebook or a log.

    Rich's own live view in notebooks needs another package, and fills a saved notebook.
    """
    notebook = "ipykernel" in sys.modules
    return Console(
        stderr=True,
        force_jupyter=False,
        force_terminal=False if notebook else None,
        width=160 if notebook else None,
    )
