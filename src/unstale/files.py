"""Files that are written whole or not at all.

Content goes to a temporary file beside the target, is flushed to the disk, and
then takes the target's name in one step. A crash at any moment leaves the old
file or the new one, never a part.
"""

import contextlib
import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any


def write_whole(path: Path, content: bytes) -> str:
    """Write `content` to `path` in one step and return its SHA-256."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    # With the usual rights, which the umask narrows: results are meant to be shared as usual.
    # (Reading the umask would set it for all threads, so the system call does the work.)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(path.parent)
    return hashlib.sha256(content).hexdigest()


def write_json(path: Path, value: Any) -> str:
    """Write `value` as indented JSON in one step and return the SHA-256.

    NaN and infinity are no JSON and raise ValueError: a metric that is not a number
    is written as null by whoever measured it.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return write_whole(path, text.encode())


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def remove_temporaries(folder: Path) -> None:
    """Remove what an earlier process left half-written in `folder`."""
    for path in folder.glob(".*.tmp"):
        with contextlib.suppress(OSError):
            path.unlink()


def _sync_folder(folder: Path) -> None:
    # The rename itself must reach the disk too; not every system lets folders be opened.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
