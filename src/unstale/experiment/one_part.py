"""One part of an experiment: one method with one seed, made and run."""

import torch

from unstale.errors import ConfigError, ModelError
from unstale.experiment.config import ExperimentConfig
from unstale.experiment.method_config import MethodConfig
from unstale.experiment.method_run import run_method
from unstale.experiment.prepare import prepare
from unstale.experiment.progress import Progress
from unstale.files import write_json
from unstale.run_folder import RunFolder
from unstale.sim import Scenario

# What a method's settings can cause. Faults of the folder, the data or the disk are not here.
CAUSED_BY_SETTINGS = (ConfigError, ModelError, ArithmeticError, RuntimeError, ValueError)


def run_part(
    config: ExperimentConfig,
    method: MethodConfig,
    scenario: Scenario,
    folder: RunFolder,
    *,
    device: torch.device,
    progress: Progress,
    checkpoint_seconds: float,
    data_root: str | None = None,
    keep_failure: bool = False,
) -> None:
    """Run one method in one scenario to its end, from its last checkpoint if there is one.

    Args:
        config: The experiment.
        method: The method.
        scenario: The scenario of one seed.
        folder: The run folder.
        device: The torch device to train on.
        progress: Notified of every round.
        checkpoint_seconds: Seconds between two checkpoints.
        data_root: The folder of data sets and weights.
        keep_failure: Write down an error that the method's settings can cause, and do not
            raise it. If the part is run again, it is tried again.
    """
    failure = folder.failure_path(method.label, scenario.seed)
    failure.unlink(missing_ok=True)
    try:
        simulation = prepare(config, method, scenario, device, data_root)
        run_method(config, method, scenario.seed, simulation, folder, progress, checkpoint_seconds)
    except CAUSED_BY_SETTINGS as error:
        if not keep_failure:
            raise
        write_json(failure, {"error": f"{type(error).__name__}: {error}"})
