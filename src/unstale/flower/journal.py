"""Accepted updates on disk, until a checkpoint holds what became of them.

```
journal/0000000012-8172635445.safetensors     version 12, of node 8172635445
```

One file each, written whole: tensors, with the rest as JSON in the file's header. With a `Seal`
files are encrypted and end in `.sealed`.
"""

import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_bytes
from safetensors.torch import save as save_bytes
from torch import Tensor

from unstale.errors import ConfigError, RunError
from unstale.files import remove_temporaries, write_whole
from unstale.privacy.sealing import Seal
from unstale.updates import Update

logger = logging.getLogger(__name__)

# A node and the version that its work was based on: of these one update is ever accepted.
Key = tuple[str, int]

_HEADER = "unstale"
PLAIN, SEALED = ".safetensors", ".sealed"


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
    """What the client measured: single finite numbers."""
    records: Mapping[str, Any] | None = None
    """All that it sent beside the arrays, as JSON (`kept_records.py`), for a function of the
    user's own that aggregates metrics; None where there is none."""

    @property
    def key(self) -> Key:
        """Who sent it, and on which version."""
        return self.update.client_id, self.update.base_version


class Journal:
    """The folder of accepted updates that no checkpoint holds for certain.

    Args:
        folder: The folder.
        seal: Encrypts and decrypts the files; None to encrypt nothing.
    """

    def __init__(self, folder: Path, seal: Seal | None = None) -> None:
        self.folder = folder
        self._seal = seal

    def _path(self, key: Key) -> Path:
        node, version = key
        if not node.isdecimal():  # it becomes the name of a file
            raise RunError(f"A node of Flower should be known by a number. Found {node!r}.")
        return self.folder / f"{version:010d}-{node}{PLAIN if self._seal is None else SEALED}"

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
        path = self._path(entry.key)
        content = save_bytes(tensors, {_HEADER: header})
        write_whole(path, content if self._seal is None else self._seal.close(content, path.name))

    def read(self) -> tuple[list[Entry], list[str]]:
        """Return all entries, oldest version first, and the names of damaged files.

        A damaged file is set aside; nothing is ever half written here, so a disk did that.

        Raises:
            ConfigError: If a file is encrypted and there is no key for it.
        """
        remove_temporaries(self.folder)
        entries: list[Entry] = []
        damaged: list[str] = []
        for path in self._files():
            try:
                entries.append(_read(path, self._seal))
            except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
                logger.warning("An accepted update cannot be read: %s: %s", path.name, error)
                path.replace(path.with_suffix(".damaged"))
                damaged.append(path.stem)
        return entries, damaged

    def remove(self, keys: Iterable[Key]) -> None:
        """Remove entries; those that are not there are ignored."""
        for key in keys:
            for ending in (PLAIN, SEALED):
                self._path(key).with_suffix(ending).unlink(missing_ok=True)

    def is_empty(self) -> bool:
        """Return whether there is no entry."""
        return not self._files()

    def _files(self) -> list[Path]:
        return sorted(p for p in self.folder.glob("*-*") if p.suffix in (PLAIN, SEALED))


def _read(path: Path, seal: Seal | None) -> Entry:
    content = path.read_bytes()
    if path.suffix == SEALED:
        if seal is None:
            raise ConfigError(
                f"{path.name} should be read with a key, since it is encrypted. Found none. Name "
                'it: storage = Storage(checkpoints="encrypted", key="env:NAME").'
            )
        try:
            content = seal.open(content, path.name)
        except ConfigError as error:  # a checkpoint was read with this key, so the file is damaged
            raise ValueError(str(error)) from error
    tensors = load_bytes(content)
    # A safetensors file begins with the length of its header, which is JSON.
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    about: dict[str, Any] = json.loads(header["__metadata__"][_HEADER])
    delta = {name: tensors[name].clone() for name in about["names"]}
    if _digest(delta) != about["digest"]:
        raise ValueError("its tensors are not as they were written")
    update = Update(about["client_id"], about["base_version"], delta, about["num_examples"])
    # A journal from before there was a field does not have it.
    fields = [f.name for f in dataclasses.fields(Entry)[1:] if f.name in about]
    return Entry(update, **{name: about[name] for name in fields})


def _digest(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, tensor in tensors.items():
        digest.update(name.encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()
