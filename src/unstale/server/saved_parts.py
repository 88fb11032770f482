"""Converting parts of a server to and from the state tree of a checkpoint."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from torch import nn

from unstale.errors import CheckpointError
from unstale.executors import Background, Executor
from unstale.inversion import InputSpec
from unstale.methods import Method
from unstale.methods.description import describe_method, rebuild_method
from unstale.methods.server_optimizer_registry import optimizer_of, optimizer_table
from unstale.methods.server_optimizers import ServerOptimizer
from unstale.params import Params
from unstale.privacy.storage import Storage
from unstale.server.checkpoint import ReadParams
from unstale.server.checks import Limits
from unstale.server.history import History, HistorySpec
from unstale.server.settings import ServerSettings
from unstale.training.local import LocalSpec
from unstale.updates import Update


def update_tree(update: Update) -> dict[str, Any]:
    """Return the fields of an update; `Update(**tree)` restores it."""
    return {f.name: getattr(update, f.name) for f in dataclasses.fields(update)}


def recipe_tree(local: LocalSpec) -> dict[str, Any]:
    """Return the fields of a training recipe; a loss that is a function is replaced by None."""
    tree = {f.name: getattr(local, f.name) for f in dataclasses.fields(local)}
    return tree if isinstance(local.loss, str) else {**tree, "loss": None}


def recipe_of(tree: Mapping[str, Any]) -> LocalSpec:
    """Return the training recipe from the result of `recipe_tree`.

    Raises:
        CheckpointError: If its loss was a function, which cannot be saved.
    """
    if tree["loss"] is None:
        raise CheckpointError(
            "The loss of a checkpoint should be a name. It was a function. "
            "Pass the recipe: Server.load(dir, local=...)."
        )
    return LocalSpec(**{**tree, "betas": tuple(tree["betas"])})


def check_fits(model: nn.Module, params: Params) -> None:
    """Raise CheckpointError unless the model has the parameters of the checkpoint."""
    buffers = {n: b for n, b in model.named_buffers() if n in params}
    found = {name: tuple(p.shape) for name, p in [*model.named_parameters(), *buffers.items()]}
    wanted = {name: tuple(p.shape) for name, p in params.items()}
    if found != wanted:
        odd = sorted(n for n in {*found, *wanted} if found.get(n) != wanted.get(n))
        raise CheckpointError(
            "The model should have the parameters that the checkpoint has. Names or shapes "
            f"differ in {odd[:5]}. Pass the model that was saved."
        )


def readers(history: History) -> dict[int, ReadParams]:
    """Return, for each kept version, a function that reads its weights."""

    def reader(version: int) -> ReadParams:
        def read() -> Params:
            params = history.get(version)
            if params is None:
                raise CheckpointError(f"Version {version} vanished while it was being saved.")
            return params

        return read

    return {version: reader(version) for version in history.store.versions}


def settings_tree(settings: ServerSettings) -> dict[str, Any]:
    """Return the settings that a checkpoint stores; executor and background are left out."""
    inputs = settings.inputs
    return {
        "method": describe_method(settings.chosen),
        "local": recipe_tree(settings.local),
        "history": dataclasses.asdict(settings.history),
        "limits": dataclasses.asdict(settings.limits),
        "inputs": None if inputs is None else dataclasses.asdict(inputs),
        "seed": settings.seed,
        "storage": dataclasses.asdict(settings.storage),
        "optimizer": optimizer_table(settings.chosen_optimizer),
    }


def settings_of(
    tree: Mapping[str, Any],
    *,
    method: str | Method | None = None,
    local: LocalSpec | None = None,
    executor: Executor | None = None,
    background: Background | None = None,
    storage: Storage | None = None,
    optimizer: str | Mapping[str, Any] | ServerOptimizer | None = None,
) -> ServerSettings:
    """Return the settings in a checkpoint; arguments that are given replace them.

    Raises:
        CheckpointError: If the method, the loss or the server optimizer has no registered name
            and is not given.
    """
    return ServerSettings(
        rebuild_method(tree["method"]) if method is None else method,
        recipe_of(tree["local"]) if local is None else local,
        HistorySpec(**tree["history"]),
        Limits(**tree["limits"]),
        None if tree["inputs"] is None else InputSpec(**tree["inputs"]),
        executor,
        background,
        tree["seed"],
        # These two are not in checkpoints from before there were such settings.
        Storage(**tree.get("storage", {})) if storage is None else storage,
        optimizer_of(tree.get("optimizer", {"name": "plain"})) if optimizer is None else optimizer,
    )
