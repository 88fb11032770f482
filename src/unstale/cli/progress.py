"""Live progress: a table in a terminal, plain lines elsewhere; always on stderr."""

import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from unstale.experiment import ExperimentConfig

# Seconds between plain lines of one method, so that a log stays readable.
QUIET_SECONDS = 5.0


class LiveProgress:
    """Shows each method's round and accuracy while it runs; a context manager."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._latest: dict[str, Mapping[str, Any]] = {}
        self._done = 0
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=console
        )
        self._live: Live | None = None
        self._spoke = 0.0

    def __enter__(self) -> "LiveProgress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.update(self._view())
            self._live.stop()

    def begin(self, config: ExperimentConfig, folder: Path) -> None:
        """Say what runs and where."""
        self._rounds, self._seeds = config.rounds, len(config.seeds)
        self._labels = [method.label for method in config.methods]
        total = config.rounds * self._seeds * len(self._labels)
        self._task = self._bar.add_task(config.name, total=total)
        self._say(f"{config.title or config.name} → {folder}")
        if self.console.is_terminal:
            self._live = Live(self._view(), console=self.console, refresh_per_second=8)
            self._live.start()

    def advance(self, label: str, seed: int, record: Mapping[str, Any]) -> None:
        """Take note of a round."""
        self._bar.advance(self._task)
        known = self._latest.get(label, {})
        scored = record if record.get("accuracy") is not None else {**known, **_round_of(record)}
        self._latest[label] = {**scored, "seed": seed}
        if self._live is not None:
            self._live.update(self._view())
        else:
            self._speak(label, seed, record)

    def _speak(self, label: str, seed: int, record: Mapping[str, Any]) -> None:
        now = time.monotonic()
        last = record["round"] == self._rounds
        if not last and now - self._spoke < QUIET_SECONDS:
            return
        self._spoke = now
        shown = self._latest[label]
        self._say(
            f"{label} seed {seed} round {record['round']}/{self._rounds} "
            f"accuracy {_number(shown.get('accuracy'))} "
            f"affected {_number(shown.get('affected_accuracy'))}"
        )

    def _say(self, text: str) -> None:
        # As it is: a title or a path may hold brackets, and a path must not be cut in two.
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _view(self) -> Group:
        table = Table(box=None, pad_edge=False)
        for column in ("method", "seed", "round", "accuracy", "affected", "stale", "refused"):
            table.add_column(column, justify="left" if column == "method" else "right")
        for label in self._labels:
            record = self._latest.get(label, {})
            table.add_row(
                label,
                str(record.get("seed", "")),
                f"{record['round']}/{self._rounds}" if record else "waiting",
                _number(record.get("accuracy")),
                _number(record.get("affected_accuracy")),
                str(record.get("stale", "")),
                str(sum(record.get("refused", {}).values()) or ""),
            )
        return Group(table, self._bar)


def _round_of(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: record[key] for key in ("round", "stale", "refused")}


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
