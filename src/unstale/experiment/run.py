"""Running an experiment into its folder, from the start or from where it stopped."""

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch

from unstale import checkpoint, data, models
from unstale.checkpoint import Checkpoints, save_tensors
from unstale.errors import CheckpointError, ConfigError, RunError
from unstale.experiment.config import ExperimentConfig, MethodConfig
from unstale.experiment.environment import describe_environment
from unstale.experiment.folder import Lines, RunFolder
from unstale.experiment.summary import write_summary
from unstale.files import write_json
from unstale.seeding import derive
from unstale.server import Server
from unstale.sim import Scenario, Simulation

FINAL = "final.safetensors"


class Progress(Protocol):
    """Who wants to know how far a run is."""

    def begin(self, config: ExperimentConfig, folder: Path) -> None:
        """The run starts or goes on."""

    def advance(self, label: str, seed: int, record: Mapping[str, Any]) -> None:
        """A round is done, now or in an earlier process."""


class Silent:
    """Progress that nobody looks at."""

    def begin(self, config: ExperimentConfig, folder: Path) -> None:
        """Do nothing."""

    def advance(self, label: str, seed: int, record: Mapping[str, Any]) -> None:
        """Do nothing."""


def run_experiment(
    config: ExperimentConfig,
    folder: RunFolder,
    *,
    device: str = "cpu",
    data_root: str | None = None,
    progress: Progress | None = None,
    command: str = "",
    checkpoint_seconds: float = 5.0,
) -> dict[str, Any]:
    """Run what is not yet done and return the summary.

    A folder with an unfinished run of the same config goes on from its last checkpoint
    and ends with the same numbers as if it had never stopped. Methods and seeds of one
    experiment meet the same data, partition, cohorts and initial weights.

    Args:
        config: What to run.
        folder: Where to; new, or holding an unfinished run of the same config.
        device: Where to train, as torch names it.
        data_root: Where data sets lie; see `unstale.data.data_roots`.
        progress: Told about every round.
        command: How the run was started, for the record.
        checkpoint_seconds: The work that a crash may cost, per method and seed.

    Raises:
        UnstaleError: If anything is wrong with config, data or folder.
    """
    progress = progress or Silent()
    where = resolve_device(device)
    # Data first: if it is missing, no folder should be left behind.
    dataset = data.load(config.data, data_root)
    scenarios = {seed: Scenario(config.scenario, dataset, seed) for seed in config.seeds}
    affected = config.evaluate.affected
    for klass in affected or ():
        if not 0 <= klass < dataset.num_classes:
            raise ConfigError(
                f"`evaluate.affected` should hold classes from 0 to {dataset.num_classes - 1}. "
                f"Found {klass}."
            )
    folder.lock()
    try:
        _open(config, folder, where, command)
        progress.begin(config, folder.path)
        for seed, scenario in scenarios.items():
            folder.write_scenario(seed, scenario.describe())
            for method in config.methods:
                simulation = _prepare(config, method, scenario, where)
                _run_one(config, method, seed, simulation, folder, progress, checkpoint_seconds)
        return write_summary(folder)
    finally:
        folder.unlock()


def resolve_device(name: str) -> torch.device:
    """Return the device of that name if it is there."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        first = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"The device should be one that torch has here, such as cpu or cuda. "
            f"Found '{name}': {first}"
        ) from error
    return device


def _open(config: ExperimentConfig, folder: RunFolder, device: torch.device, command: str) -> None:
    resolved = config.to_json()
    if folder.is_run:
        found = folder.read_json(folder.config_path)
        if differing := _differences(found, resolved):
            raise RunError(
                f"A run should go on with the config it began with. {folder.path} differs in: "
                f"{', '.join(differing)}. Use the same settings, or choose another folder."
            )
        return
    write_json(folder.path / "environment.json", describe_environment(device, command))
    write_json(folder.config_path, resolved)


def _differences(a: Any, b: Any, where: str = "") -> list[str]:
    """Return the dotted keys in which two configs differ (lists and tuples are alike)."""
    if isinstance(a, dict) and isinstance(b, dict):
        keys = sorted({*a, *b})
        return [d for k in keys for d in _differences(a.get(k), b.get(k), f"{where}.{k}")]
    if isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        pairs = enumerate(zip(a, b, strict=True))
        return [d for i, (x, y) in pairs for d in _differences(x, y, f"{where}.{i}")]
    return [] if a == b else [where.lstrip(".")]


def _prepare(
    config: ExperimentConfig, method: MethodConfig, scenario: Scenario, device: torch.device
) -> Simulation:
    dataset = scenario.data
    model = models.build(
        config.model,
        dataset.input_shape,
        dataset.num_classes,
        seed=derive(scenario.seed, "model"),
        **config.model_settings,
    ).to(device)
    built = method.build()
    server = Server(
        model,
        built,
        local=config.local,
        history=config.history,
        limits=config.limits,
        seed=scenario.seed,
    )
    return Simulation(
        server,
        model,
        scenario,
        affected=config.evaluate.affected,
        delayed=built.delayed,
        with_oracle=config.oracle,
        evaluate_every=config.evaluate.every,
        device=device,
    )


def _run_one(
    config: ExperimentConfig,
    method: MethodConfig,
    seed: int,
    simulation: Simulation,
    folder: RunFolder,
    progress: Progress,
    checkpoint_seconds: float,
) -> None:
    """Run one method with one seed to its end."""
    lines = Lines(folder.lines_path(method.label, seed))
    place = folder.checkpoints_path(method.label, seed)
    if (place / FINAL).is_file():
        for record in lines.read():
            progress.advance(method.label, seed, record)
        return
    checkpoints = Checkpoints(place)
    for record in _go_back(simulation, checkpoints, lines):
        progress.advance(method.label, seed, record)

    saved = time.monotonic()
    try:
        while simulation.round < config.rounds:
            last = simulation.round + 1 == config.rounds
            record = simulation.run_round(evaluate_now=last)
            record = {"method": method.label, "seed": seed, **record}
            lines.append(record)
            progress.advance(method.label, seed, record)
            if time.monotonic() - saved >= checkpoint_seconds and not last:
                _save(simulation, checkpoints, lines)
                saved = time.monotonic()
    except KeyboardInterrupt:
        # Between rounds or within one: the last whole round is what the lines hold, and the
        # checkpoint may only say so if the simulation stands there too.
        if simulation.round == len(lines.read()):
            _save(simulation, checkpoints, lines)
        raise
    lines.flush()
    final = simulation.server.params
    shutil.rmtree(place, ignore_errors=True)
    save_tensors(place / FINAL, final)


def _save(simulation: Simulation, checkpoints: Checkpoints, lines: Lines) -> None:
    lines.flush()  # before the checkpoint, which relies on them
    checkpoints.write(*simulation.to_tree())


def _go_back(
    simulation: Simulation, checkpoints: Checkpoints, lines: Lines
) -> list[dict[str, Any]]:
    """Restore the last sound checkpoint, if any, and return the records up to it."""
    if not checkpoint.exists(checkpoints.folder):
        return lines.cut(0)
    try:
        tree, versions = checkpoints.read()
    except CheckpointError:
        return lines.cut(0)  # nothing is lost but time: the run repeats itself exactly
    if len(lines.read()) < tree["server"]["version"]:
        return lines.cut(0)  # somebody removed lines; they can only be made again
    simulation.restore(tree, versions)
    return lines.cut(simulation.round)
