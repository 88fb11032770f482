"""What data and model of one's own were, by checksum: a run goes on only with the same."""

import hashlib
from typing import Any

import torch
from torch import Tensor, nn

from unstale.data import Dataset
from unstale.errors import RunError
from unstale.experiment.config import ExperimentConfig
from unstale.files import write_json
from unstale.run_folder.folder import RunFolder


def record_own(
    config: ExperimentConfig, folder: RunFolder, dataset: Dataset, model: nn.Module
) -> None:
    """Write checksums of data and model of one's own; compare them, if the run began before.

    Args:
        config: The experiment.
        folder: The run folder.
        dataset: Its data.
        model: Its model, with the initial weights of the first seed.

    Raises:
        RunError: If the run began with others.
    """
    found: dict[str, Any] = {}
    if config.own_data is not None:
        found["data"] = {
            "name": config.data,
            "train": len(dataset.y_train),
            "test": len(dataset.y_test),
            "input_shape": list(dataset.input_shape),
            "classes": list(dataset.classes),
            "sha256": _checksum(_tensors_of(dataset)),
        }
    if config.own_model is not None:
        weights = dict(model.state_dict())
        found["model"] = {
            "name": config.model,
            "parameters": sum(one.numel() for one in model.parameters()),
            "sha256": _checksum(weights),
        }
    if not found:
        return
    if not folder.own_path.is_file():
        write_json(folder.own_path, found)
        return
    began = folder.read_json(folder.own_path)
    for what, now in found.items():
        if began.get(what, {}).get("sha256") != now["sha256"]:
            hint = (
                "Pass a function that makes the model instead of the model, or seed torch before "
                "it is made"
                if what == "model"
                else "Load the same data in the same order"
            )
            raise RunError(
                f"A run should be resumed with the {what} it began with. The {what} of "
                f"{folder.path} had other {'initial weights' if what == 'model' else 'samples'}. "
                f"{hint}, or choose another folder."
            )


def _tensors_of(dataset: Dataset) -> dict[str, Tensor]:
    found = {key: getattr(dataset, key) for key in ("x_train", "y_train", "x_test", "y_test")}
    users = dataset.users_train
    return found if users is None else {**found, "users_train": users}


def _checksum(tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, tensor in tensors.items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
