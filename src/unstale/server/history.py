"""Earlier versions of the global model, kept as long as a client works on them.

`VersionStore` holds weights by version, in memory up to a size and on disk beyond it.
`History` decides which versions are kept: those that a client has checked out and not
yet answered, up to `max_versions`. Memory therefore grows with the number of
outstanding versions, not with the number of rounds.
"""

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load as load_bytes
from safetensors.torch import save as save_bytes
from torch import Tensor

from unstale.errors import ConfigError
from unstale.files import write_whole
from unstale.params import Params, num_bytes


@dataclass(frozen=True, slots=True)
class HistorySpec:
    """How many earlier versions a server keeps, and where."""

    max_versions: int = 1000
    """Maximum number of versions; the oldest are dropped first. An update from a dropped
    version is treated as the method's `fallback` says."""
    memory_bytes: int = 256 * 2**20
    """Maximum size of the weights in memory; older versions are written to disk and read back
    when needed."""
    folder: str | None = None
    """Folder of the versions on disk; a temporary one if not given."""

    def __post_init__(self) -> None:
        if type(self.max_versions) is not int or self.max_versions < 1:
            raise ConfigError(
                "HistorySpec: `max_versions` should be an integer of at least 1. "
                f"Found {self.max_versions!r}."
            )
        if type(self.memory_bytes) is not int or self.memory_bytes < 0:
            raise ConfigError(
                "HistorySpec: `memory_bytes` should be an integer of at least 0. "
                f"Found {self.memory_bytes!r}."
            )
        if self.folder is not None:  # also accepts a Path; checkpoints need a string
            object.__setattr__(self, "folder", os.fspath(self.folder))


class VersionStore:
    """Weights by version, in memory up to a size and on disk beyond it.

    Example:
        >>> store = VersionStore(memory_bytes=0)
        >>> store.put(0, {"w": torch.ones(3)})
        >>> store.put(1, {"w": torch.zeros(3)})   # writes version 0 to disk
        >>> store.on_disk, store.get(0)["w"]
        (1, tensor([1., 1., 1.]))
    """

    def __init__(self, memory_bytes: int, folder: str | Path | None = None) -> None:
        self._limit = memory_bytes
        self._parent = folder
        self._folder: Path | None = None
        self._memory: dict[int, dict[str, Tensor]] = {}
        # File, device and parameter names; safetensors does not keep the order of names.
        self._disk: dict[int, tuple[Path, torch.device, tuple[str, ...]]] = {}
        self._bytes = 0

    @property
    def versions(self) -> list[int]:
        """All stored versions, oldest first."""
        return sorted([*self._memory, *self._disk])

    @property
    def on_disk(self) -> int:
        """Number of versions on disk."""
        return len(self._disk)

    @property
    def memory_used(self) -> int:
        """Size in bytes of the weights in memory."""
        return self._bytes

    def usage(self) -> dict[str, int]:
        """Return what the report says of the history: versions, bytes in memory, on disk."""
        return {
            "versions": len(self.versions),
            "bytes": self.memory_used,
            "on_disk": self.on_disk,
        }

    def put(self, version: int, params: Params) -> None:
        """Store the weights of a version; the newest always stays in memory."""
        self.drop([version])
        self._memory[version] = dict(params)
        self._bytes += num_bytes(params)
        for oldest in sorted(self._memory)[:-1]:
            if self._bytes <= self._limit:
                break
            self._spill(oldest)

    def get(self, version: int) -> Params | None:
        """Return the weights of a version, or None if they are not stored."""
        if version in self._memory:
            return self._memory[version]
        if version not in self._disk:
            return None
        path, device, names = self._disk[version]
        # safetensors returns views of one buffer that may be unaligned, which can change the
        # last bits of a matrix product. Clones are aligned, so a resumed run gives the same bits.
        tensors = load_bytes(path.read_bytes())
        return {name: tensors[name].clone().to(device) for name in names}

    def drop(self, versions: Iterable[int]) -> None:
        """Remove versions; unknown ones are ignored."""
        for version in versions:
            params = self._memory.pop(version, None)
            if params is not None:
                self._bytes -= num_bytes(params)
            path, *_ = self._disk.pop(version, (None,))
            if path is not None:
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()

    def _spill(self, version: int) -> None:
        if self._folder is None:
            if self._parent is not None:
                Path(self._parent).mkdir(parents=True, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(prefix="unstale-versions-", dir=self._parent))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        params = self._memory[version]
        device = next(iter(params.values())).device if params else torch.device("cpu")
        path = self._folder / f"{version:010d}.safetensors"
        write_whole(path, save_bytes({n: p.contiguous() for n, p in params.items()}))
        self._disk[version] = (path, device, tuple(params))
        self._bytes -= num_bytes(params)
        del self._memory[version]


class History:
    """The versions of the global model that a server still needs.

    Args:
        spec: How many versions are kept, and where.
        lookback: How many versions before an outstanding one are kept as well, for methods
            that read them.
    """

    def __init__(self, spec: HistorySpec, lookback: int = 0) -> None:
        self.spec = spec
        self.lookback = lookback
        self.store = VersionStore(spec.memory_bytes, spec.folder)

    def get(self, version: int) -> Params | None:
        """Return the weights of a version, or None if they are not stored."""
        return self.store.get(version)

    def advance(self, version: int, params: Params, outstanding: Iterable[int] | None) -> None:
        """Add the new current version and drop those that are no longer needed.

        Args:
            version: The new current version.
            params: Its weights.
            outstanding: Versions that clients still work on; None if clients do not check
                versions out, so that only `max_versions` limits what is kept.
        """
        self.store.put(version, params)
        at_hand = self.store.versions
        if outstanding is not None:
            needed = {v - back for v in {version, *outstanding} for back in self._reach}
            self.store.drop(v for v in at_hand if v not in needed)
            at_hand = self.store.versions
        excess = len(at_hand) - self.spec.max_versions
        self.store.drop(at_hand[: max(excess, 0)])

    @property
    def _reach(self) -> range:
        return range(self.lookback + 1)
