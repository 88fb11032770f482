"""Reading weights by name from a file that others have written.

Three formats, by the ending of the file's name: ``.safetensors``, ``.npz`` and, for state dicts
that were saved by ``torch.save``, ``.pt`` or ``.pth``. The first two hold plain arrays. The third
is a pickle: it is read by torch's restricted unpickler (``weights_only=True``), which builds
tensors and plain containers and refuses everything else.
"""

import pickle
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from unstale.errors import ConfigError

ENDINGS = (".safetensors", ".npz", ".pt", ".pth")
MAX_BYTES = 2**34
"""Maximum unpacked size of an archive, against zip bombs."""


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """Return the tensors of a weights file by name, on the CPU.

    Args:
        path: A file with one of the endings .safetensors, .npz, .pt and .pth. A state dict that
            was saved by torch may be wrapped in a dict, under the key ``state_dict``.

    Raises:
        ConfigError: If the file is missing, damaged or of another format.
    """
    path = Path(path).expanduser()
    if path.suffix not in ENDINGS:
        raise ConfigError(
            f"A weights file should end in one of: {', '.join(ENDINGS)}. Found {path.name}. "
            "Save the state dict by safetensors.torch.save_file."
        )
    try:
        if path.suffix == ".safetensors":
            found: object = load_file(path)
        elif path.suffix == ".npz":
            _check_size(path)
            with np.load(path, allow_pickle=False) as archive:
                found = {name: torch.from_numpy(np.array(archive[name])) for name in archive.files}
        else:
            found = _saved_by_torch(path)
    except OSError as error:
        raise ConfigError(f"{path} should be a readable weights file. Found: {error}.") from error
    # SafetensorError, BadZipFile and UnpicklingError are of the formats, a MemoryError is of a
    # header that claims too much, and a RuntimeError or TypeError of torch's reader.
    except (
        SafetensorError, zipfile.BadZipFile, zlib.error, pickle.UnpicklingError, RuntimeError,
        ValueError, TypeError, KeyError, EOFError, MemoryError,
    ) as error:  # fmt: skip
        first = str(error).partition("\n")[0]
        raise _unreadable(path, f"{type(error).__name__}: {first}") from error
    return _named_tensors(path, found)


def _saved_by_torch(path: Path) -> Any:
    # Only the format of torch 1.6 and later: the unpickler of the older one could be made to run
    # code, weights_only or not (CVE-2025-32434).
    _check_size(path)
    found = torch.load(path, map_location="cpu", weights_only=True)
    wrapped = isinstance(found, Mapping) and isinstance(found.get("state_dict"), Mapping)
    return found["state_dict"] if wrapped else found


def _check_size(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        total = sum(entry.file_size for entry in archive.infolist())
    if total > MAX_BYTES:
        raise ValueError(f"{total} bytes, more than {MAX_BYTES}")


def _named_tensors(path: Path, found: object) -> dict[str, Tensor]:
    if not isinstance(found, Mapping) or not found:
        raise _unreadable(path, f"a {type(found).__name__}" if found else "nothing")
    for name, value in found.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise _unreadable(path, f"{name!r}: a {type(value).__name__}")
        if value.layout is not torch.strided or value.is_quantized or value.device.type != "cpu":
            raise _unreadable(path, f"{name!r}: not a dense tensor")
    return dict(found)


def _unreadable(path: Path, found: str) -> ConfigError:
    return ConfigError(
        f"{path} should hold tensors by name and nothing else. Found {found}. The file is damaged "
        "or of another kind: save the state dict by safetensors.torch.save_file."
    )
