"""Live progress: a table in a terminal, plain lines elsewhere; always on stderr."""

import dataclasses
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from unstale.experiment import ExperimentConfig
from unstale.run_folder import Round, RunFolder

# Seconds between plain lines of one method, so that a log stays readable.
QUIET_SECONDS = 5.0


class LiveProgress:
    """Shows each method's round and accuracy while it runs; a context manager."""

    def __init__(self, console: Console) -> None:
        self.console = console
        # The last line of each method, with the scores of its last evaluated round.
        self._latest: dict[str, Round] = {}
        self._done = 0
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=console
        )
        self._live: Live | None = None
        self._spoke = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        if self._live is not None:
            self._live.update(self._view())
            self._live.stop()
            self._live = None

    def begin(self, config: ExperimentConfig, folder: Path) -> None:
        """Say what runs and where; a run that tunes begins twice, with the tries first."""
        self._end()
        for task in self._bar.task_ids:
            self._bar.remove_task(task)
        self._latest.clear()
        self._rounds, self._seeds = config.rounds, len(config.seeds)
        self._labels = [method.label for method in config.methods]
        total = config.rounds * self._seeds * len(self._labels)
        self._task = self._bar.add_task(config.name, total=total)
        self._say(f"{config.title or config.name} → {folder}")
        if (weights := RunFolder(folder).weights_path).is_file():
            self._say(RunFolder(folder).read_json(weights)["says"])
        if self.console.is_terminal:
            self._live = Live(self._view(), console=self.console, refresh_per_second=8)
            self._live.start()

    def announce(self, text: str) -> None:
        """Say something of the run."""
        self._say(text)

    def advance(self, label: str, seed: int, line: Round) -> None:
        """Take note of a round."""
        self._bar.advance(self._task)
        shown = dataclasses.replace(line, seed=seed)
        known = self._latest.get(label)
        if line.accuracy is None and known is not None:
            shown = dataclasses.replace(
                shown, accuracy=known.accuracy, affected_accuracy=known.affected_accuracy
            )
        self._latest[label] = shown
        for one in line.other_recipes:
            self._say(f"WARNING: {label} seed {seed} round {line.number}: {one.says}")
        if self._live is not None:
            self._live.update(self._view())
        else:
            self._speak(label, seed, line)

    def _speak(self, label: str, seed: int, line: Round) -> None:
        now = time.monotonic()
        last = line.number == self._rounds
        if not last and now - self._spoke < QUIET_SECONDS:
            return
        self._spoke = now
        shown = self._latest[label]
        self._say(
            f"{label} seed {seed} round {line.number}/{self._rounds} "
            f"accuracy {_number(shown.accuracy)} "
            f"affected {_number(shown.affected_accuracy)}{self._line_end()}"
        )

    def _line_end(self) -> str:
        """What a plain line says besides; nothing of a run that stands alone."""
        return ""

    def _say(self, text: str) -> None:
        # As it is: a title or a path may hold brackets, and a path must not be cut in two.
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _view(self) -> Group:
        table = Table(box=None, pad_edge=False)
        for column in ("method", "seed", "round", "accuracy", "affected", "stale", "refused"):
            table.add_column(column, justify="left" if column == "method" else "right")
        for label in self._labels:
            line = self._latest.get(label)
            if line is None:
                table.add_row(label, "", "waiting", "", "", "", "")
                continue
            table.add_row(
                label,
                str(line.seed),
                f"{line.number}/{self._rounds}",
                _number(line.accuracy),
                _number(line.affected_accuracy),
                str(line.stale),
                str(sum(line.refused.values()) or ""),
            )
        return Group(table, self._bar)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
