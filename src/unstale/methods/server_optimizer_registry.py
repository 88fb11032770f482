"""Server optimizers by name, for the setting `optimizer` of a server.

    us.Server(model, method="convert", optimizer="fedadam")
    us.Server(model, method="convert", optimizer={"name": "fedavgm", "momentum": 0.5})

In an experiment file it is the table `[optimizer]`. It goes with every method that moves the
weights by a mean of changes.
"""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from unstale.errors import CheckpointError
from unstale.methods.named_parts import NamedPart, NamedParts

if TYPE_CHECKING:
    from unstale.methods.server_optimizers import ServerOptimizer

_FOLDER = "unstale.methods.server_optimizers"
_REDDI = "Reddi et al. 2021"

SERVER_OPTIMIZERS: dict[str, NamedPart] = {
    "plain": NamedPart(
        "Adds the aggregated change; the default.",
        "McMahan et al. 2017 (FedAvg)",
        f"{_FOLDER}:Plain",
    ),
    "fedavgm": NamedPart("Momentum.", "Hsu et al. 2019 (FedAvgM)", f"{_FOLDER}:FedAvgM"),
    "fedadagrad": NamedPart(
        "Adagrad: divides by the root of the sum of squared changes.",
        _REDDI,
        f"{_FOLDER}:FedAdagrad",
    ),
    "fedadam": NamedPart(
        "Adam: divides by the root of a decaying mean of squared changes.",
        _REDDI,
        f"{_FOLDER}:FedAdam",
    ),
    "fedyogi": NamedPart(
        "Yogi: as Adam, with a mean that falls more slowly.", _REDDI, f"{_FOLDER}:FedYogi"
    ),
}
_PARTS = NamedParts("server optimizer", SERVER_OPTIMIZERS, "FedAdam()", key="optimizer")


def as_server_optimizer(value: "str | Mapping[str, Any] | ServerOptimizer") -> "ServerOptimizer":
    """Return a server optimizer: as it is, by its name, or from a table with `name` and settings.

    Raises:
        UnknownNameError: If there is no such optimizer or setting; names the nearest.
        ConfigError: If it is something else.

    Example:
        >>> as_server_optimizer({"name": "fedavgm", "momentum": 0.5})
        FedAvgM(lr=1.0, momentum=0.5)
    """
    from unstale.methods.server_optimizers import ServerOptimizer

    made: ServerOptimizer | None = _PARTS.made(value)
    if made is not None:
        return made
    if not isinstance(value, ServerOptimizer) or isinstance(value, type):
        raise _PARTS.refuse(value)
    return value


def optimizer_table(optimizer: "ServerOptimizer") -> dict[str, Any]:
    """Return a server optimizer as the table that makes it; one of the user's own as `given`.

    Example:
        >>> optimizer_table(as_server_optimizer("fedavgm"))
        {'name': 'fedavgm', 'lr': 1.0, 'momentum': 0.9}
    """
    for name, part in SERVER_OPTIMIZERS.items():
        if part.cls is type(optimizer):
            return {"name": name, **dataclasses.asdict(optimizer)}  # type: ignore[call-overload]
    shown = repr(optimizer)
    # What prints its address would never be the same again.
    return {"name": "given", "is": type(optimizer).__qualname__ if " at 0x" in shown else shown}


def optimizer_tables(optimizer: "ServerOptimizer") -> dict[str, Any]:
    """Return what the config of a run says of its server optimizer: nothing of the plain one.

    So runs from before there were others can be resumed and compared.
    """
    table = optimizer_table(optimizer)
    return {} if table == {"name": "plain"} else {"optimizer": table}


def optimizer_of(table: Mapping[str, Any]) -> "ServerOptimizer":
    """Return the server optimizer from the result of `optimizer_table`, in a checkpoint.

    Raises:
        CheckpointError: If it was one of the user's own, which cannot be saved.
    """
    if table["name"] == "given":
        raise CheckpointError(
            "The server optimizer of a checkpoint should be a registered one. Found "
            f"{table['is']}. Pass it: Server.load(dir, optimizer=...)."
        )
    return as_server_optimizer(table)
