"""The sink `wandb`: runs of Weights & Biases. Needs `unstale[wandb]`."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unstale.sinks.base import SinkRun, require


class WandB:
    """Writes a run of Weights & Biases for each method and seed, grouped by run folder.

    Where to is its own settings. Without `WANDB_MODE` nothing leaves the machine: the runs are
    offline, in `wandb/` of the run folder (or of `WANDB_DIR`), and `wandb sync` uploads them.
    With `WANDB_MODE=online` they go to the server of `WANDB_BASE_URL`. The project is
    `WANDB_PROJECT`, or `unstale`.

    Raises:
        ConfigError: If wandb is not installed.
    """

    def __init__(self) -> None:
        require("wandb", "Weights & Biases", "wandb")

    def open(self, run: SinkRun) -> "_Writer":
        """Begin a run, or go on with the one of the same id."""
        # Reports of errors in wandb to its makers.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        mode = os.environ.get("WANDB_MODE", "offline")
        settings: dict[str, Any] = {"mode": mode, "console": "off", "silent": True}
        if "WANDB_DIR" not in os.environ:
            settings["root_dir"] = str(run.folder)
        if mode == "offline":
            _remove_parts(Path(os.environ.get("WANDB_DIR", run.folder)) / "wandb", run.id)
        return _Writer(
            wandb.init(
                project=os.environ.get("WANDB_PROJECT", "unstale"),
                id=run.id,
                name=run.name,
                group=f"{run.experiment} {run.folder.name}",
                tags=[run.label],
                config=dict(run.settings),
                resume=None if mode == "offline" else "allow",
                reinit="create_new",  # several runs in one process
                settings=wandb.Settings(**settings),
            )
        )


def _remove_parts(folder: Path, id: str) -> None:
    """Remove what earlier processes wrote of an offline run.

    wandb does not go on with an offline run, and one that was killed has lost what wandb still
    held in memory. So a resumed run is written anew, as a whole.
    """
    for part in folder.glob(f"offline-run-*-{id}*"):
        shutil.rmtree(part, ignore_errors=True)


class _Writer:
    def __init__(self, run: Any) -> None:
        self._run = run
        # The server knows what it has; offline there is nothing yet.
        self.written = max(run.starting_step - 1, 0)

    def write(self, round: int, scalars: Mapping[str, float]) -> None:
        """Write a round, as a step of its number."""
        self._run.log(dict(scalars), step=round, commit=True)

    def close(self, summary: Mapping[str, float] | None) -> None:
        """Write the summary and end the run; without one it counts as failed."""
        self._run.summary.update(dict(summary or {}))
        self._run.finish(exit_code=1 if summary is None else 0)
