"""Finding the files of data sets under the data roots."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from unstale.data.source import Files, Layout, Source
from unstale.errors import DataError

ENVIRONMENT_VARIABLE = "UNSTALE_DATA"


@dataclass(frozen=True, slots=True)
class Found:
    """The files of a data set, all of them found."""

    layout: Layout
    """The layout of the files."""
    folder: Path
    """The folder that holds them."""
    files: Files
    """Each by its published name."""


def data_roots(root: str | Path | None = None) -> list[Path]:
    """Return the folders in which data sets are looked for, in order.

    They are `root`, if given; else the folders of the environment variable UNSTALE_DATA
    (separated as in PATH); else the user's cache, ``$XDG_CACHE_HOME/unstale`` or
    ``~/.cache/unstale``.

    Example:
        >>> [str(path) for path in data_roots("/srv/data")]
        ['/srv/data']
    """
    if root is not None:
        return [_expand(root)]
    named = [part for part in os.environ.get(ENVIRONMENT_VARIABLE, "").split(os.pathsep) if part]
    if named:
        return [_expand(part) for part in named]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "")
    # The XDG specification says to ignore a relative path.
    return [(cache if cache.is_absolute() else _expand("~/.cache")) / "unstale"]


def _expand(path: str | Path) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise DataError(
            f"The data root '{path}' needs a home directory. None was found ({error}). "
            f"Set {ENVIRONMENT_VARIABLE} or give a data root."
        ) from error


def locate(name: str, source: Source, root: str | Path | None = None) -> Found:
    """Find the files of a data set.

    Args:
        name: The name of the data set, for messages.
        source: The source of the data set.
        root: As in `data_roots`.

    Returns:
        The first complete layout: by root, then by layout, then by folder.

    Raises:
        DataError: If none is complete; says where the files were looked for and how to get them.
    """
    embedded = source.embedded
    if embedded is not None:
        return Found(embedded, Path(), {})
    roots = data_roots(root)
    partial: list[str] = []
    for base in roots:
        for layout in source.layouts:
            for folder in dict.fromkeys(base / part for part in layout.folders):
                files = {file: folder / file for file in layout.files}
                absent = [file for file, path in files.items() if not path.is_file()]
                if not absent:
                    return Found(layout, folder, files)
                if len(absent) < len(files):
                    partial.append(f"{folder} lacks {_several(absent)}")
    raise DataError(_missing(name, source, roots, partial))


def _missing(name: str, source: Source, roots: list[Path], partial: list[str]) -> str:
    """Return the message for a data set whose files are missing."""
    wanted = " or ".join(
        f"{_several(layout.files)} in {' | '.join(layout.folders)}" for layout in source.layouts
    )
    where = ", ".join(str(base) + ("" if base.is_dir() else " (no such folder)") for base in roots)
    incomplete = f" Incomplete: {'; '.join(partial)}." if partial else ""
    return (
        f"{how_to_get(name, source, roots)} The files of data set '{name}' should be under a data "
        f"root. Found none: looked for {wanted}; under {where}.{incomplete}"
    )


def how_to_get(name: str, source: Source, roots: list[Path]) -> str:
    """Return how to get the files and where to put them, for messages."""
    layout = source.layouts[0]
    files = _several(layout.files)
    place = (
        f"into {roots[0] / layout.folders[0]} "
        f"(or name another data root by option or {ENVIRONMENT_VARIABLE})."
    )
    if source.downloads:
        return f"Run `unstale data fetch {name}`, or put the files {place}"
    return f"Put {files} {place} {source.obtain or 'Nothing is published to fetch.'}"


def _several(names: Iterable[str]) -> str:
    """Return the names of up to four files, and the number of others."""
    names = list(names)
    rest = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + rest
