"""One method with one seed: from its last checkpoint to its end."""

import dataclasses
import logging
import shutil
import time
from pathlib import Path

from unstale.errors import CheckpointError
from unstale.experiment.config import ExperimentConfig
from unstale.experiment.method_config import MethodConfig
from unstale.experiment.progress import Progress
from unstale.run_folder import Lines, Round, RunFolder, write_surrogates
from unstale.server import checkpoint
from unstale.server.checkpoint import Checkpoints, save_tensors
from unstale.sim import Simulation

logger = logging.getLogger(__name__)

FINAL = "final.safetensors"


def run_method(
    config: ExperimentConfig,
    method: MethodConfig,
    seed: int,
    simulation: Simulation,
    folder: RunFolder,
    progress: Progress,
    checkpoint_seconds: float,
) -> None:
    """Run one method with one seed to its end, from its last checkpoint if there is one.

    Raises:
        RunError: If its lines are damaged, or of another version of the schema.
        ConfigError: If checkpoints are encrypted and the key is missing or another one.
    """
    lines = Lines(folder.lines_path(method.label, seed))
    place = folder.checkpoints_path(method.label, seed)
    checkpoints = Checkpoints(place, config.storage.seal())
    if (place / FINAL).is_file() and len(done := lines.read()) == config.rounds:
        _remove_all_but_final(place)
        for line in done:
            progress.advance(method.label, seed, line)
        return
    for line in _go_back(simulation, checkpoints, lines):
        progress.advance(method.label, seed, line)

    saved = time.monotonic()
    between_rounds = True
    try:
        while simulation.round < config.rounds:
            last = simulation.round + 1 == config.rounds
            between_rounds = False
            line = simulation.run_round(evaluate_now=last)
            line = dataclasses.replace(line, method=method.label, seed=seed)
            lines.append(line)
            between_rounds = True
            progress.advance(method.label, seed, line)
            if time.monotonic() - saved >= checkpoint_seconds and not last:
                _save(simulation, checkpoints, lines)
                saved = time.monotonic()
    except KeyboardInterrupt:
        # Within a round the simulation stands between two states, of which none may be saved:
        # clients are asked already, updates wait at the server. The last checkpoint serves.
        if between_rounds:
            _save(simulation, checkpoints, lines)
        raise
    lines.flush()
    server = simulation.server
    if config.storage.surrogates:
        path = folder.surrogates_path(method.label, seed)
        write_surrogates(path, server.surrogates(), server.inputs)
    # First the new, then away with the old: a crash between the two costs nothing.
    save_tensors(place / FINAL, server.params)
    _remove_all_but_final(place)


def _remove_all_but_final(place: Path) -> None:
    for path in place.iterdir():
        if path.name == FINAL:
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _save(simulation: Simulation, checkpoints: Checkpoints, lines: Lines) -> None:
    lines.flush()  # before the checkpoint, which relies on them
    checkpoints.write(*simulation.to_tree())


def _go_back(simulation: Simulation, checkpoints: Checkpoints, lines: Lines) -> list[Round]:
    """Restore the last sound checkpoint, if any, and return the lines up to it."""
    if not checkpoint.exists(checkpoints.folder):
        return lines.cut(0)
    try:
        tree, versions = checkpoints.read()
    except CheckpointError as error:
        # Nothing is lost but time: the run repeats itself exactly.
        logger.warning("%s starts from the beginning. %s", lines.path.parent.name, error)
        return lines.cut(0)
    if len(lines.read()) < tree["server"]["version"]:
        logger.warning("%s starts from the beginning: lines are missing.", lines.path)
        return lines.cut(0)  # somebody removed lines; they can only be made again
    simulation.restore(tree, versions)
    return lines.cut(simulation.round)
