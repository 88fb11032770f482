"""The sink `tensorboard`: scalars for TensorBoard. Needs `unstale[tensorboard]`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unstale.sinks.base import SinkRun, require


class TensorBoard:
    """Writes event files that TensorBoard reads, in a folder for each method and seed.

    Args:
        folder: Where to; `tensorboard/` in the run folder if not given.

    Raises:
        ConfigError: If TensorBoard is not installed.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        require("tensorboard", "TensorBoard", "tensorboard")
        self.folder = None if folder is None else Path(folder)

    def open(self, run: SinkRun) -> "_Writer":
        """Begin a run's event file, or one that goes on after the last round of another."""
        within = run.folder / "tensorboard" if self.folder is None else self.folder
        return _Writer(run, within / run.label / f"seed-{run.seed}")


class _Writer:
    def __init__(self, run: SinkRun, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._last = run.written
        # TensorBoard forgets what an earlier process wrote beyond the last round.
        purge = run.written + 1 if run.written else None
        self._events: Any = SummaryWriter(str(folder), purge_step=purge)
        if not run.written:
            shown = json.dumps(run.settings, indent=2, ensure_ascii=False)
            self._events.add_text("settings", f"```json\n{shown}\n```", 0)

    def write(self, round: int, scalars: Mapping[str, float]) -> None:
        """Write a round."""
        self._last = round
        for name, value in scalars.items():
            self._events.add_scalar(name, value, round)
        self._events.flush()  # a killed run loses nothing

    def close(self, summary: Mapping[str, float] | None) -> None:
        """Write the summary at the last round, and finish the file."""
        for name, value in (summary or {}).items():
            self._events.add_scalar(name, value, self._last)
        self._events.close()
