"""All parts of an experiment, one after the other or side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from unstale.experiment.config import ExperimentConfig
from unstale.experiment.one_part import run_part
from unstale.experiment.progress import Progress, announce
from unstale.experiment.side_by_side import Setting, run_side_by_side
from unstale.run_folder import RunFolder
from unstale.sim import Scenario


@dataclass(frozen=True, slots=True)
class Runner:
    """Where and how the parts of an experiment are run."""

    device: torch.device
    """The torch device to train on."""
    data_root: str | None
    """The folder of data sets and weights."""
    threads: int
    """CPU threads of each process."""
    checkpoint_seconds: float
    """Seconds between two checkpoints of a part."""
    jobs: int
    """Number of processes."""
    progress: Progress
    """Notified of every round."""

    def run(
        self,
        config: ExperimentConfig,
        folder: RunFolder,
        scenarios: Mapping[int, Scenario],
        *,
        keep_failures: bool = False,
        notes: Sequence[str] = (),
    ) -> None:
        """Run every method with every seed of an experiment.

        Args:
            config: The experiment.
            folder: Its run folder, which holds the config already.
            scenarios: The scenario of each seed.
            keep_failures: As in `run_part`.
            notes: What is said of the run when it begins.
        """
        self.progress.begin(config, folder.path)
        for note in notes:
            announce(self.progress, note)
        for seed in config.seeds:
            folder.write_scenario(seed, scenarios[seed].describe())
        parts = [(method, seed) for seed in config.seeds for method in config.methods]
        if self.jobs > 1 and len(parts) > 1:
            setting = Setting(
                config,
                folder.path,
                str(self.device),
                self.data_root,
                self.threads,
                self.checkpoint_seconds,
                keep_failures=keep_failures,
            )
            labels = [(method.label, seed) for method, seed in parts]
            run_side_by_side(setting, labels, self.jobs, self.progress)
            return
        for method, seed in parts:
            run_part(
                config,
                method,
                scenarios[seed],
                folder,
                device=self.device,
                progress=self.progress,
                checkpoint_seconds=self.checkpoint_seconds,
                data_root=self.data_root,
                keep_failure=keep_failures,
            )
