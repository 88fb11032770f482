"""Running an experiment into a run folder, and resuming one that stopped."""

from typing import Any

import torch

from unstale import data
from unstale.errors import ConfigError, RunError
from unstale.experiment.config import ExperimentConfig
from unstale.experiment.method_run import run_method
from unstale.experiment.prepare import model_of, prepare
from unstale.experiment.progress import Progress, Silent
from unstale.experiment.side_by_side import Setting, run_side_by_side
from unstale.files import write_json
from unstale.run_folder.environment import describe_environment
from unstale.run_folder.folder import RunFolder
from unstale.run_folder.summary import write_summary
from unstale.sim import Scenario
from unstale.training.device import resolve_device
from unstale.training.model_checks import check_model


def run_experiment(
    config: ExperimentConfig,
    folder: RunFolder,
    *,
    device: str = "cpu",
    data_root: str | None = None,
    progress: Progress | None = None,
    command: str = "",
    checkpoint_seconds: float = 5.0,
    jobs: int = 1,
) -> dict[str, Any]:
    """Run all methods and seeds of an experiment and return the summary.

    An unfinished run of the same config in `folder` is resumed from its last checkpoint and
    gives the same numbers as an undisturbed one. For one seed, all methods have the same
    data, partition, cohorts and initial weights.

    Args:
        config: The experiment.
        folder: The run folder: new, or with an unfinished run of the same config.
        device: The torch device to train on.
        data_root: The folder of data sets; see `unstale.data.data_roots`.
        progress: Notified of every round.
        command: The command that started the run, for the record.
        checkpoint_seconds: Seconds between two checkpoints of a method and seed.
        jobs: Number of processes that run methods and seeds in parallel; results do not depend
            on it. Methods that a script has registered are not known in other processes.

    Raises:
        UnstaleError: If the config, the data or the folder is wrong.
    """
    if type(jobs) is not int or jobs < 1:
        raise ConfigError(f"`jobs` should be a whole number of at least 1. Found {jobs!r}.")
    progress = progress or Silent()
    where = resolve_device(device)
    # Data and model first: no folder is created if they are missing or wrong.
    dataset = data.load(config.data, data_root)
    scenarios = {seed: Scenario(config.scenario, dataset, seed) for seed in config.seeds}
    check_model(model_of(config, scenarios[config.seeds[0]]))
    affected = config.evaluate.affected
    for klass in affected or ():
        if not 0 <= klass < dataset.num_classes:
            raise ConfigError(
                f"`evaluate.affected` should hold classes from 0 to {dataset.num_classes - 1}. "
                f"Found {klass}."
            )
    folder.lock()
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(config.threads or threads)
        _open(config, folder, where, command)
        progress.begin(config, folder.path)
        for seed, scenario in scenarios.items():
            folder.write_scenario(seed, scenario.describe())
        parts = [(method, seed) for seed in config.seeds for method in config.methods]
        if jobs > 1 and len(parts) > 1:
            setting = Setting(
                config,
                folder.path,
                device,
                data_root,
                config.threads or threads,
                checkpoint_seconds,
            )
            run_side_by_side(setting, [(m.label, seed) for m, seed in parts], jobs, progress)
        else:
            for method, seed in parts:
                simulation = prepare(config, method, scenarios[seed], where)
                run_method(config, method, seed, simulation, folder, progress, checkpoint_seconds)
        return write_summary(folder)
    finally:
        torch.set_num_threads(threads)
        folder.unlock()


def _open(config: ExperimentConfig, folder: RunFolder, device: torch.device, command: str) -> None:
    resolved = config.to_json()
    if folder.is_run:
        found = folder.read_json(folder.config_path)
        if differing := _differences(found, resolved):
            raise RunError(
                f"A run should be resumed with the config it began with. {folder.path} differs "
                f"in: {', '.join(differing)}. Use the same settings, or choose another folder."
            )
        _check_same_device(folder, device)
        return
    write_json(folder.path / "environment.json", describe_environment(device, command))
    write_json(folder.config_path, resolved)


def _check_same_device(folder: RunFolder, device: torch.device) -> None:
    """Raise RunError if the device differs: devices round differently, so results would change."""
    began_on = folder.read_json(folder.path / "environment.json").get("device", "cpu")
    first, now = ((d.type, d.index or 0) for d in (torch.device(began_on), device))
    if first != now:
        raise RunError(
            f"A run should be resumed on the device it began on, {began_on}. Found {device}. "
            f"Add --device {began_on}, or choose another folder."
        )


def _differences(a: Any, b: Any, where: str = "") -> list[str]:
    """Return the dotted keys in which two configs differ; lists and tuples are not told apart."""
    if isinstance(a, dict) and isinstance(b, dict):
        keys = sorted({*a, *b})
        return [d for k in keys for d in _differences(a.get(k), b.get(k), f"{where}.{k}")]
    if isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        pairs = enumerate(zip(a, b, strict=True))
        return [d for i, (x, y) in pairs for d in _differences(x, y, f"{where}.{i}")]
    return [] if a == b else [where.lstrip(".")]
