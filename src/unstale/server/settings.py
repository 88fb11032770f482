"""The settings of a server as one object."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unstale.errors import ConfigError
from unstale.executors import Background, Executor
from unstale.inversion import InputSpec
from unstale.methods import Aggregator, Compensator, Method, as_method
from unstale.methods.base import makes_model
from unstale.methods.server_optimizer_registry import as_server_optimizer
from unstale.methods.server_optimizers import Plain, ServerOptimizer
from unstale.privacy.storage import Storage
from unstale.server.checks import Limits
from unstale.server.history import HistorySpec
from unstale.training import LocalSpec


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of a server, for code that creates servers, such as the Flower strategy.

    `Server(model, ...)` takes the same settings as keyword arguments.

    Example:
        >>> ServerSettings(method="first_order", local=LocalSpec(lr=0.1)).chosen.name
        'first_order'
    """

    method: str | Method | Compensator = "unweighted"
    """A method by name, a `Method` from `unstale.method(name, ...)`, or a compensator such as
    `Convert(...)`, whose updates are combined by FedAvg."""
    local: LocalSpec = field(default_factory=LocalSpec)
    """The training recipe that clients run."""
    history: HistorySpec = field(default_factory=HistorySpec)
    """How many earlier versions are kept, and where."""
    limits: Limits = field(default_factory=Limits)
    """Limits on the updates that clients may send."""
    inputs: InputSpec | None = None
    """Shape, bounds and number of classes of the model's inputs; needed by `convert`."""
    executor: Executor | None = None
    """Computes conversions in parallel; None for this process. The caller closes it."""
    background: Background | None = None
    """Fits surrogates while rounds go on; with None they are fitted in the step. The caller
    closes it."""
    seed: int = 0
    """Seed of the method's random draws."""
    storage: Storage = field(default_factory=Storage)
    """What is written to the disk of single clients."""
    optimizer: str | Mapping[str, Any] | ServerOptimizer = "plain"
    """How the weights move by what was aggregated: a server optimizer by name, a table with
    `name` and settings, or an object such as `FedAdam(lr=0.05)`."""

    @property
    def chosen(self) -> Method:
        """The method as an object, even if it was given by name."""
        return as_method(self.method)

    @property
    def chosen_optimizer(self) -> ServerOptimizer:
        """The server optimizer as an object.

        Raises:
            ConfigError: If the method makes the next model itself, as `fedat` does.
        """
        optimizer, method = as_server_optimizer(self.optimizer), self.chosen
        if makes_model(method.aggregator) and not isinstance(optimizer, Plain):
            raise ConfigError(
                "A server optimizer should move the weights by a mean of changes. Method "
                f"'{method.name}' sets the global model to a mean of models instead, and "
                f'{optimizer!r} would leave it. Use `optimizer = "plain"`, or another method.'
            )
        return optimizer


def chosen_method(
    method: str | Method | Compensator | None,
    compensator: Compensator | None,
    aggregator: Aggregator | None,
) -> str | Method | Compensator:
    """Return the method that a server's arguments name; `unweighted` where they name none.

    Raises:
        ConfigError: If both a method and parts of one are given.
    """
    if compensator is None and aggregator is None:
        return "unweighted" if method is None else method
    if method is not None:
        raise ConfigError("Server: give `method`, or `compensator` and `aggregator`, not both.")
    parts = {"compensator": compensator, "aggregator": aggregator}
    return Method(**{k: v for k, v in parts.items() if v is not None})  # type: ignore[arg-type]
