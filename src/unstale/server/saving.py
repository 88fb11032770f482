"""What `Server` writes to disk, and how it comes back."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from torch import nn

from unstale.executors import Executor
from unstale.executors.background import Background
from unstale.methods import Method
from unstale.methods.server_optimizers import ServerOptimizer
from unstale.privacy.storage import Storage
from unstale.server.checkpoint import Checkpoints, ReadParams
from unstale.server.parts import ServerParts
from unstale.server.reading import ServerReading
from unstale.server.saved_parts import settings_of
from unstale.server.settings import ServerSettings
from unstale.training.local import LocalSpec


class ServerSaving(ServerReading):
    """The part of `Server` that writes checkpoints and restores them."""

    def __init__(self, parts: ServerParts) -> None:
        super().__init__(parts)
        self._checkpoints: dict[Path, Checkpoints] = {}

    @classmethod
    def _around(cls, parts: ServerParts) -> Self:
        """Return a server of these parts; the arguments of a new one are not needed."""
        server = cls.__new__(cls)
        ServerSaving.__init__(server, parts)
        return server

    def save(self, folder: str | Path) -> Path:
        """Write a checkpoint into `folder` atomically and return the path of its JSON file.

        Raises:
            ConfigError: If checkpoints are encrypted and the key is not there.
        """
        with self._lock:
            tree, versions = self.to_tree()
            path = Path(folder).resolve()
            if path not in self._checkpoints:
                self._checkpoints[path] = Checkpoints(path, self.settings.storage.seal())
            return self._checkpoints[path].write({"server": tree}, versions)

    def to_tree(self) -> tuple[dict[str, Any], dict[int, ReadParams]]:
        """Return the whole state as a tree, and readers of the kept versions, for a checkpoint.

        Without what the method remembers of clients, if `storage` says so.
        """
        return self._parts.to_tree()

    @classmethod
    def load(
        cls,
        folder: str | Path,
        model: nn.Module | None = None,
        *,
        method: str | Method | None = None,
        local: LocalSpec | None = None,
        executor: Executor | None = None,
        background: Background | None = None,
        storage: Storage | None = None,
        optimizer: str | Mapping[str, Any] | ServerOptimizer | None = None,
    ) -> Self:
        """Restore a server from the newest intact checkpoint of a folder.

        A damaged checkpoint is skipped with a warning.

        Args:
            folder: The folder that `save` wrote to.
            model: The architecture, for methods that train the model on the server.
            method: Needed only if the method uses classes that are not registered.
            local: Needed only if the loss is a function instead of a name.
            executor: Computes conversions in parallel; None for this process.
            background: Fits surrogates while rounds go on. Updates that were awaiting their
                fit are fitted again; without a background they take part in the next step.
            storage: Where the key is, if the checkpoint is encrypted. As it was saved if not
                given.
            optimizer: Needed only if the server optimizer is not a registered one.

        Raises:
            CheckpointError: If no checkpoint is intact.
            ConfigError: If it is encrypted and the key is missing or another one.
        """
        path = Path(folder).resolve()
        checkpoints = Checkpoints(path, None if storage is None else storage.seal())
        tree, versions = checkpoints.read()
        settings = settings_of(
            tree["server"],
            method=method,
            local=local,
            executor=executor,
            background=background,
            storage=storage,
            optimizer=optimizer,
        )
        server = cls.from_tree(tree["server"], versions, model, settings)
        server._checkpoints[path] = checkpoints
        return server

    @classmethod
    def from_tree(
        cls,
        tree: dict[str, Any],
        versions: dict[int, ReadParams],
        model: nn.Module | None,
        settings: ServerSettings,
    ) -> Self:
        """Return the server from the results of `to_tree`, with the given settings."""
        return cls._around(ServerParts.from_tree(tree, versions, model, settings))
