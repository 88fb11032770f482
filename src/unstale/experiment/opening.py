"""Opening a run folder: new, or with an unfinished run of the same config on the same device."""

import torch

from unstale.errors import RunError
from unstale.experiment.config import ExperimentConfig
from unstale.files import write_json
from unstale.run_folder.differences import differences
from unstale.run_folder.environment import describe_environment
from unstale.run_folder.folder import RunFolder


def open_folder(
    config: ExperimentConfig, folder: RunFolder, device: torch.device, command: str
) -> None:
    """Write config and environment into a new run folder, or compare them with what is there.

    Raises:
        RunError: If the folder holds a run of another config, or one on another device.
    """
    resolved = config.to_json()
    if folder.is_run:
        found = folder.read_json(folder.config_path)
        if differing := differences(found, resolved):
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
