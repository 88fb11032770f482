"""`Source`: where a data set's files may lie, how they are read, verified and fetched."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unstale.data.dataset import Dataset
from unstale.errors import ConfigError

Files = Mapping[str, Path]
"""The files of a layout as found on disk, by their published names."""


@dataclass(frozen=True, slots=True)
class Layout:
    """One set of files that together hold a data set, as its publisher or a tool leaves them."""

    read: Callable[[Files], Dataset]
    """Turns the files into a `Dataset`; raises DataError naming a damaged file."""
    files: Mapping[str, str] = field(default_factory=dict)
    """File name -> checksum as ``"md5:…"`` or ``"sha256:…"``, or ``""`` where none is known.
    Without files the data set is embedded: it comes with an installed package."""
    folders: tuple[str, ...] = (".",)
    """Folders under a data root in which the files may lie, the preferred one first."""

    def __post_init__(self) -> None:
        if not self.folders:
            raise ConfigError("A layout should name at least one folder. Found none. Use ('.',).")
        for name, checksum in self.files.items():
            if checksum and checksum.partition(":")[0] not in hashlib.algorithms_available:
                raise ConfigError(
                    f"The checksum of {name} should be like 'md5:…' or 'sha256:…', or empty. "
                    f"Found '{checksum}'."
                )


@dataclass(frozen=True, slots=True)
class Download:
    """One published file and where it goes."""

    urls: tuple[str, ...]
    """Where it is published; the next is tried when one fails."""
    path: str
    """Where it is put, relative to the data root."""
    checksum: str
    """As in `Layout.files`; never empty, because what comes over a network is checked."""
    members: tuple[str, ...] = ()
    """For a .tar.gz: the files to take out of it, by their paths in it and under the root.
    The archive itself is not kept."""

    def __post_init__(self) -> None:
        if not self.urls or not self.checksum:
            raise ConfigError(
                f"The download of {self.path} should have a URL and a checksum. Found "
                f"{len(self.urls)} URLs and the checksum '{self.checksum}'."
            )


@dataclass(frozen=True, slots=True)
class Source:
    """All that is known about a data set before it is read."""

    summary: str
    """What it is, in one line."""
    layouts: tuple[Layout, ...]
    """Where its files may lie; the first that is complete is read."""
    downloads: tuple[Download, ...] = ()
    """What `fetch` brings; empty where nothing is published that could be read as it is."""
    obtain: str = ""
    """How to get or make the files where there is nothing to download."""

    def __post_init__(self) -> None:
        if not self.layouts:
            raise ConfigError(f"The source '{self.summary}' should have a layout. Found none.")

    @property
    def embedded(self) -> Layout | None:
        """The layout that needs no files, where there is one."""
        return next((layout for layout in self.layouts if not layout.files), None)


def checksum_of(path: Path, like: str) -> str:
    """Return the checksum of a file by the algorithm that `like` names, in the same form."""
    algorithm = like.partition(":")[0]
    with path.open("rb") as file:
        # MD5 is what the publishers give; it guards against damage, not against malice.
        digest = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False))
    return f"{algorithm}:{digest.hexdigest()}"
