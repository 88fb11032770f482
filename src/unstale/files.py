"""Atomic file writes.

Content is written to a temporary file next to the target, flushed to the disk, and
then renamed to the target. A crash at any moment leaves the old file or the new
one, never a part of it.
"""

import contextlib
import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any


def write_whole(path: Path, content: bytes) -> str:
    """Write `content` to `path` atomically and return its SHA-256."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    # Default permissions (0o666 minus the umask) instead of tempfile's 0o600, so that results
    # can be shared. os.open applies the umask itself; reading it in Python would have to set
    # it, for all threads.
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
    """Write `value` as indented JSON atomically and return its SHA-256.

    Raises:
        ValueError: If a number is NaN or infinite, which JSON cannot express. Callers write
            such a metric as null.
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
    """Remove the temporary files that an interrupted `write_whole` left in `folder`."""
    for path in folder.glob(".*.tmp"):
        with contextlib.suppress(OSError):
            path.unlink()


def _sync_folder(folder: Path) -> None:
    # Flushes the rename itself. Not every system can open a folder (Windows cannot).
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
