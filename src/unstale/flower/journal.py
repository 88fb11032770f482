"""Accepted updates on disk, until a checkpoint holds what became of them.

```
journal/0000000012-8172635445.safetensors     version 12, of node 8172635445
```

One file each, written whole: tensors, with the rest as JSON in the file's header.
"""

import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load as load_bytes
from safetensors.torch import save as save_bytes
from torch import Tensor

from unstale.errors import RunError
from unstale.files import remove_temporaries, write_whole
from unstale.updates import Update

logger = logging.getLogger(__name__)

# A node and the version that its work was based on: of these one update is ever accepted.
Key = tuple[str, int]

_HEADER = "unstale"


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One accepted update."""

    update: Update
    sent: int
    """The round in which the node was asked."""
    due: int = 0
    """The first round in which it may take part; later than `sent` where lateness is emulated."""
    idle_from: int = 0
    """The first round in which the node can be asked again."""
    seconds: float = 0.0
    """Between asking and the answer."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What the client measured."""

    @property
    def key(self) -> Key:
        """Who sent it, and on which version."""
        return self.update.client_id, self.update.base_version


class Journal:
    """The folder of accepted updates that no checkpoint holds for certain."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, key: Key) -> Path:
        node, version = key
        if not node.isdecimal():  # it becomes the name of a file
            raise RunError(f"A node of Flower should be known by a number. Found {node!r}.")
        return self.folder / f"{version:010d}-{node}.safetensors"

    def write(self, entry: Entry) -> None:
        """Write an entry; it is on the disk when this returns."""
        tensors = {n: t.detach().cpu().contiguous().clone() for n, t in entry.update.delta.items()}
        about = {
            "client_id": entry.update.client_id,
            "base_version": entry.update.base_version,
            "num_examples": entry.update.num_examples,
            "names": list(tensors),  # in their order, which safetensors does not keep
            "digest": _digest(tensors),
            **{f.name: getattr(entry, f.name) for f in dataclasses.fields(entry)[1:]},
        }
        header = json.dumps({**about, "metrics": dict(entry.metrics)}, allow_nan=False)
        write_whole(self._path(entry.key), save_bytes(tensors, {_HEADER: header}))

    def read(self) -> tuple[list[Entry], list[str]]:
        """Return all entries, oldest version first, and the names of damaged files.

        A damaged file is set aside; nothing is ever half written here, so a disk did that.
        """
        remove_temporaries(self.folder)
        entries: list[Entry] = []
        damaged: list[str] = []
        for path in sorted(self.folder.glob("*.safetensors")):
            try:
                entries.append(_read(path))
            except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
                logger.warning("An accepted update cannot be read: %s: %s", path.name, error)
                path.replace(path.with_suffix(".damaged"))
                damaged.append(path.stem)
        return entries, damaged

    def remove(self, keys: Iterable[Key]) -> None:
        """Remove entries; those that are not there are ignored."""
        for key in keys:
            self._path(key).unlink(missing_ok=True)

    def is_empty(self) -> bool:
        """Return whether there is no entry."""
        return not any(self.folder.glob("*.safetensors"))


def _read(path: Path) -> Entry:
    with safe_open(path, framework="pt") as file:
        about: dict[str, Any] = json.loads((file.metadata() or {})[_HEADER])
    tensors = load_bytes(path.read_bytes())
    delta = {name: tensors[name].clone() for name in about["names"]}
    if _digest(delta) != about["digest"]:
        raise ValueError("its tensors are not as they were written")
    update = Update(about["client_id"], about["base_version"], delta, about["num_examples"])
    about = {field.name: about[field.name] for field in dataclasses.fields(Entry)[1:]}
    return Entry(update, **about)


def _digest(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, tensor in tensors.items():
        digest.update(name.encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()
