"""`Source`: where the files of a data set are, and how to read, verify and fetch them.

`Derived` is for a data set that is made from others.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unstale.data.dataset import Dataset
from unstale.errors import ConfigError

Files = Mapping[str, Path]
"""The paths of the files of a layout, by their published names."""


@dataclass(frozen=True, slots=True)
class Layout:
    """One set of files that a data set can be read from."""

    read: Callable[[Files], Dataset]
    """Reads the files into a `Dataset`; raises DataError if one is damaged."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Checksums by file name, as ``"md5:…"`` or ``"sha256:…"``, or ``""`` if not known. A data
    set without files is embedded: it comes with an installed package."""
    folders: tuple[str, ...] = (".",)
    """Folders under a data root in which the files may be, the preferred one first."""

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
    """Where it is published; the next one is tried if one fails."""
    path: str
    """Where it is put, relative to the data root."""
    checksum: str
    """As in `Layout.files`, but never empty: all downloads are verified."""
    members: tuple[str, ...] = ()
    """For a .tar.gz: the files to extract, by their paths in the archive, which are also their
    paths under the data root. The archive itself is not kept."""

    def __post_init__(self) -> None:
        if not self.urls or not self.checksum:
            raise ConfigError(
                f"The download of {self.path} should have a URL and a checksum. Found "
                f"{len(self.urls)} URLs and the checksum '{self.checksum}'."
            )


@dataclass(frozen=True, slots=True)
class Source:
    """The files of a data set, and how to get and read them."""

    summary: str
    """A description in one line."""
    layouts: tuple[Layout, ...]
    """The possible sets of files; the first one that is complete is read."""
    downloads: tuple[Download, ...] = ()
    """What `fetch` downloads; empty if no published file can be read directly."""
    obtain: str = ""
    """How to get or make the files if there is nothing to download."""

    def __post_init__(self) -> None:
        if not self.layouts:
            raise ConfigError(f"The source '{self.summary}' should have a layout. Found none.")

    @property
    def embedded(self) -> Layout | None:
        """The layout without files, if there is one."""
        return next((layout for layout in self.layouts if not layout.files), None)


@dataclass(frozen=True, slots=True)
class Derived:
    """A data set that is made from others whenever it is loaded; it has no files of its own."""

    summary: str
    """A description in one line."""
    of: tuple[str, ...]
    """The names of the data sets that it is made from."""
    make: Callable[[Mapping[str, Dataset]], Dataset]
    """Makes it, given these data sets by name; should always give the same samples."""

    def __post_init__(self) -> None:
        if not self.of:
            raise ConfigError(
                f"The derived data set '{self.summary}' should be made from others. Found none. "
                "Use a Source for one without."
            )


def checksum_of(path: Path, like: str) -> str:
    """Return the checksum of a file in the form and with the algorithm of `like`."""
    algorithm = like.partition(":")[0]
    with path.open("rb") as file:
        # Publishers give MD5, which detects damage but not manipulation.
        digest = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False))
    return f"{algorithm}:{digest.hexdigest()}"
