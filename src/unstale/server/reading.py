"""What can be read of a server without changing it."""

import threading

import torch
from torch import nn

from unstale.executors import Executor
from unstale.executors.background import Background
from unstale.inversion import InputSpec, Surrogate
from unstale.methods import Method
from unstale.methods.server_optimizers import ServerOptimizer
from unstale.params import Params, clone
from unstale.server.checks import Limits
from unstale.server.parts import ServerParts
from unstale.server.settings import ServerSettings
from unstale.training.local import LocalSpec
from unstale.updates import Key


class ServerReading:
    """The part of `Server` that only looks: settings, version, weights, and what is open."""

    def __init__(self, parts: ServerParts) -> None:
        self._parts = parts
        self._lock = threading.RLock()

    @property
    def model(self) -> nn.Module | None:
        """The architecture; None if the server was loaded without it."""
        return self._parts.model

    @property
    def settings(self) -> ServerSettings:
        """All settings."""
        return self._parts.settings

    @property
    def statistics(self) -> frozenset[str]:
        """Names in `params` that are no weights but running statistics, which are averaged."""
        return self._parts.statistics

    @property
    def method(self) -> Method:
        """How updates are compensated and combined."""
        return self._parts.method

    @property
    def optimizer(self) -> ServerOptimizer:
        """How the weights move by what was aggregated."""
        return self._parts.optimizer

    @property
    def local(self) -> LocalSpec:
        """The training recipe that clients run."""
        return self.settings.local

    @property
    def limits(self) -> Limits:
        """Limits on the updates that clients may send."""
        return self.settings.limits

    @property
    def inputs(self) -> InputSpec | None:
        """Shape, bounds and number of classes of the model's inputs."""
        return self.settings.inputs

    @property
    def executor(self) -> Executor | None:
        """Computes conversions in parallel; None for this process."""
        return self.settings.executor

    @property
    def background(self) -> Background | None:
        """Fits surrogates while rounds go on; with None they are fitted in the step."""
        return self.settings.background

    @property
    def seed(self) -> int:
        """Seed of the method's random draws."""
        return self.settings.seed

    @property
    def version(self) -> int:
        """The version of the current global model."""
        return self._parts.state.version

    @property
    def params(self) -> dict[str, torch.Tensor]:
        """A copy of the current global weights."""
        return clone(self._parts.state.params)

    @property
    def outstanding(self) -> list[int]:
        """The versions that clients have checked out and not yet answered, oldest first."""
        with self._lock:
            return sorted(self._parts.tickets.outstanding())

    @property
    def awaiting_fit(self) -> list[Key]:
        """Client id and base version of the accepted updates that await their background fit."""
        with self._lock:
            return self._parts.arrivals.awaiting_fit

    def weights_of(self, version: int) -> Params | None:
        """Return the weights of a version, or None if they are not kept; do not modify them."""
        with self._lock:
            return self._parts.history.get(version)

    def surrogates(self) -> dict[str, Surrogate]:
        """Return the clients' surrogates, from which their next fits start; do not modify them."""
        with self._lock:
            return self._parts.surrogates()

    def stands_in_for(self) -> frozenset[str]:
        """Return the clients that the method would stand in for now, were they absent."""
        with self._lock:
            return self._parts.stood_in_for()
