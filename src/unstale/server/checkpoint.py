"""Checkpoints: JSON and safetensors files, written atomically and verified when read.

A folder of checkpoints looks like this:

```
checkpoint-0000000007.json          the state tree, and the SHA-256 of every file it needs
checkpoint-0000000007.safetensors   the tensors of the state tree
versions/0000000003-5f0c….safetensors   the weights of an earlier version; written once
```

The JSON file is written last; a checkpoint without it does not exist. The last two
checkpoints are kept. `read` uses the newest one whose files all match their SHA-256 and
logs a warning if that is not the last one. The name of a version's file contains the
start of its SHA-256, so that another run in the same folder never overwrites a file that
an older checkpoint needs. Nothing is ever unpickled.

With a `Seal`, state tree and tensors are encrypted together in `checkpoint-0000000007.sealed`,
and the JSON file has only the digests. Earlier versions of the global model, which every client
has been sent, are not encrypted.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from safetensors.torch import load as load_bytes
from safetensors.torch import save as save_bytes
from torch import Tensor

from unstale.errors import CheckpointError, ConfigError
from unstale.files import remove_temporaries, sha256_of, write_json, write_whole
from unstale.params import Params
from unstale.privacy.sealing import Seal
from unstale.server.tree import put_tensors, take_tensors

logger = logging.getLogger(__name__)

# 3: past updates of `convert` refer to their base weights by version.
FORMAT = 3
KEPT = 2
# Of the file beside the JSON file of a checkpoint.
_ENDINGS = ("safetensors", "sealed")

ReadParams = Callable[[], Params]


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Write named tensors to a safetensors file atomically and return its SHA-256."""
    return write_whole(path, tensor_bytes(tensors))


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Return named tensors as the content of a safetensors file."""
    # Cloned: safetensors refuses tensors that share memory, and parts of a state may.
    return save_bytes({n: t.detach().cpu().contiguous().clone() for n, t in tensors.items()})


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file; every tensor has its own, aligned memory."""
    return _tensors(path.read_bytes())


def _tensors(content: bytes) -> dict[str, Tensor]:
    return {n: t.clone() for n, t in load_bytes(content).items()}


class Checkpoints:
    """A folder of checkpoints that one process writes and reads.

    Files of versions that this object wrote or restored are not written again. Other files
    of the same version are not reused.

    Args:
        folder: The folder.
        seal: Encrypts what is written and decrypts what is read; None to encrypt nothing.
    """

    def __init__(self, folder: Path, seal: Seal | None = None) -> None:
        self.folder = folder
        self._seal = seal
        self._own: dict[int, tuple[str, str]] = {}  # version -> its file and SHA-256
        self._damaged: set[int] = set()  # numbers of checkpoints that `read` skipped

    def write(self, tree: Mapping[str, Any], versions: Mapping[int, ReadParams]) -> Path:
        """Write a checkpoint and return the path of its JSON file.

        Args:
            tree: Nested dicts (with string keys) and lists of tensors and JSON values.
            versions: Functions that return the weights of earlier versions; called only for
                versions that are not in the folder yet.
        """
        folder = self.folder
        folder.mkdir(parents=True, exist_ok=True)
        for place in (folder, folder / "versions"):
            remove_temporaries(place)
        number = max(_numbers(folder), default=0) + 1
        own: dict[int, tuple[str, str]] = {}
        for version, read in versions.items():
            known = self._own.get(version)
            if known is None or not (folder / known[0]).is_file():
                content = tensor_bytes(read())
                digest = hashlib.sha256(content).hexdigest()
                known = f"versions/{number_text(version)}-{digest[:16]}.safetensors", digest
                write_whole(folder / known[0], content)
            own[version] = known
        self._own = own
        tensors: dict[str, Tensor] = {}
        body = take_tensors(tree, tensors)
        stem = f"checkpoint-{number_text(number)}"
        record: dict[str, Any] = {"format": FORMAT}
        if self._seal is None:
            name = f"{stem}.safetensors"
            digest = save_tensors(folder / name, tensors)
            record["tree"] = body
        else:
            name = f"{stem}.sealed"
            digest = write_whole(folder / name, _sealed(self._seal, name, body, tensors))
            record["sealed"] = True
        record["files"] = {**dict(own.values()), name: digest}
        path = folder / f"{stem}.json"
        write_json(path, {**record, "digest": _digest(record)})
        _forget_old(folder, self._damaged)
        return path

    def read(self) -> tuple[dict[str, Any], dict[int, ReadParams]]:
        """Return the tree and the versions of the newest checkpoint that is intact.

        Raises:
            CheckpointError: If there is none; the message says what is wrong with each.
            ConfigError: If it is encrypted and the key is missing or another one.
        """
        numbers = sorted(_numbers(self.folder), reverse=True)
        if not numbers:
            raise CheckpointError(
                "A folder of checkpoints should hold checkpoint-*.json. "
                f"Found none in {self.folder}."
            )
        faults: list[str] = []
        for number in numbers:
            path = self.folder / f"checkpoint-{number_text(number)}.json"
            try:
                content = _read_sound(path)
            except (
                OSError,
                ValueError,
                KeyError,
                TypeError,
                AttributeError,
                CheckpointError,
            ) as error:
                faults.append(f"{path.name}: {error}")
                self._damaged.add(number)
                continue
            if faults:
                logger.warning(
                    "Skipped a damaged checkpoint (%s); restored %s instead.", faults[0], path.name
                )
            return self._restore(path, content)
        raise CheckpointError(
            f"At least one checkpoint in {self.folder} should be readable. All are damaged:\n"
            + "\n".join(f"- {fault}" for fault in faults)
            + "\nRestore the folder from a backup, or start again in an empty one."
        )

    def _restore(
        self, path: Path, content: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[int, ReadParams]]:
        tree, tensors = self._content(path, content)
        self._own = {
            int(Path(name).stem.partition("-")[0]): (name, digest)
            for name, digest in content["files"].items()
            if name.startswith("versions/")
        }
        versions: dict[int, ReadParams] = {
            version: partial(load_tensors, self.folder / name)
            for version, (name, _) in self._own.items()
        }
        return put_tensors(tree, tensors), versions

    def _content(self, path: Path, content: dict[str, Any]) -> tuple[Any, dict[str, Tensor]]:
        if not content.get("sealed"):
            return content["tree"], load_tensors(path.with_suffix(".safetensors"))
        if self._seal is None:
            raise ConfigError(
                f"{path.name} should be read with a key, since it is encrypted. Found none. Name "
                'it: storage = Storage(checkpoints="encrypted", key="env:NAME").'
            )
        sealed = path.with_suffix(".sealed")
        return _unsealed(self._seal, sealed)


def _sealed(seal: Seal, name: str, body: Any, tensors: Mapping[str, Tensor]) -> bytes:
    text = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    return seal.close(len(text).to_bytes(8, "big") + text + tensor_bytes(tensors), name)


def _unsealed(seal: Seal, path: Path) -> tuple[Any, dict[str, Tensor]]:
    content = seal.open(path.read_bytes(), path.name)
    end = 8 + int.from_bytes(content[:8], "big")
    return json.loads(content[8:end]), _tensors(content[end:])


def number_text(number: int) -> str:
    """Return a number as ten digits, so that file names sort by it."""
    return f"{number:010d}"


def exists(folder: Path) -> bool:
    """Return whether a folder has a checkpoint, intact or not."""
    return bool(_numbers(folder))


def _read_sound(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    digest = content.pop("digest")
    if digest != _digest(content):
        raise CheckpointError("its content does not match its digest")
    if content["format"] != FORMAT:
        raise CheckpointError(
            f"its format is {content['format']} and this version of Unstale reads {FORMAT}. Load "
            "it with the version that wrote it, or start a new run"
        )
    for name, expected in content["files"].items():
        if sha256_of(path.parent / name) != expected:
            raise CheckpointError(f"{name} is not as it was written")
    return content


def _digest(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _numbers(folder: Path) -> list[int]:
    found = (path.stem.removeprefix("checkpoint-") for path in folder.glob("checkpoint-*.json"))
    return [int(number) for number in found if number.isdigit()]


def _forget_old(folder: Path, damaged: set[int]) -> None:
    # Damaged checkpoints are removed first, so that two intact ones are kept.
    numbers = sorted(_numbers(folder), key=lambda number: (number not in damaged, number))
    for number in numbers[:-KEPT]:
        for ending in ("json", *_ENDINGS):
            (folder / f"checkpoint-{number_text(number)}.{ending}").unlink(missing_ok=True)
    needed: set[str] = set()
    for number in numbers[-KEPT:]:
        path = folder / f"checkpoint-{number_text(number)}.json"
        try:
            needed.update(json.loads(path.read_text(encoding="utf-8"))["files"])
        except (OSError, ValueError, KeyError, TypeError):
            continue  # damaged, so its files are not needed
    own = [path for ending in _ENDINGS for path in folder.glob(f"checkpoint-*.{ending}")]
    for path in [*folder.glob("versions/*.safetensors"), *own]:
        if path.relative_to(folder).as_posix() not in needed:
            path.unlink(missing_ok=True)
