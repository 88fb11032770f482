"""Places for output, checked before anything is computed."""

import errno
import os
from pathlib import Path

from unstale.errors import ConfigError


def require_folder(path: Path, name: str) -> None:
    """Raise ConfigError unless `path` is a folder that can be written, or can become one.

    Nothing is created. What only an attempt can show is left to `cannot_write`.

    Args:
        path: The folder.
        name: The option or argument that named it, for the message.
    """
    try:
        _require(path, name, "a folder", path)
    except OSError as error:  # such as a name that is too long
        raise cannot_write(path, name, error) from error


def require_file(path: Path, name: str) -> None:
    """Raise ConfigError unless a file can be written at `path`, or replaced there.

    Args:
        path: The file.
        name: The option or argument that named it, for the message.
    """
    try:
        if path.is_dir():
            raise ConfigError(
                f"`{name}` should be a file. Found {path}, which is a folder. Name a file in it."
            )
        _require(path.parent, name, "a file in a folder", path)
    except OSError as error:
        raise cannot_write(path, name, error) from error


def cannot_write(path: Path, name: str, error: OSError) -> ConfigError:
    """Return the ConfigError for a place at which writing failed."""
    return ConfigError(
        f"`{name}` should be a place that can be written. Writing to {path} failed: "
        f"{error.strerror or error}. Choose another place, or change its permissions."
    )


def is_full(error: OSError) -> bool:
    """Return whether the disk had no room."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _require(folder: Path, name: str, what: str, named: Path) -> None:
    """Raise ConfigError unless the nearest folder above that is there can be written."""
    there = next((one for one in (folder, *folder.parents) if one.exists()), Path())
    below = "" if there == named else f"{named}, which is below "
    should = f"`{name}` should be {what} that can be written."
    if not there.is_dir():
        raise ConfigError(f"{should} Found {below}{there}, which is a file. Choose another place.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(
            f"{should} Found {below}{there}, into which you may not write. "
            "Choose another place, or change its permissions."
        )
