"""Finding data sets on this machine and verifying their checksums."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from unstale.data.faults import MissingExtraError
from unstale.data.registry import find_source, names
from unstale.data.roots import Found, data_roots, how_to_get, locate
from unstale.data.source import Derived, checksum_of
from unstale.errors import DataError

Status = Literal["embedded", "verified", "unverified", "missing", "damaged"]

# How bad a status is: a data set that is made from others is as bad as the worst of them.
_WORSE: dict[Status, int] = {
    "embedded": 0,
    "verified": 1,
    "unverified": 2,
    "missing": 3,
    "damaged": 4,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of checking one data set."""

    name: str
    """The name of the data set."""
    status: Status
    """embedded: comes with a package. verified: all checksums match. unverified: the files can
    be read, but a checksum differs or is not known. missing: not all files are there.
    damaged: the files cannot be read."""
    where: str
    """The folder of the files, or where it should be if missing; empty if embedded."""
    detail: str
    """An explanation for the user."""


def check(root: str | Path | None = None) -> list[Finding]:
    """Look for every registered data set and verify its files by checksum.

    If a checksum differs, the data set is read, which takes a while, to find out whether it
    is damaged or only different.

    Args:
        root: As in `data_roots`.

    Returns:
        One finding per data set, in the order of `names()`.

    Example:
        >>> from unstale import data
        >>> data.check("/nowhere")[0].status
        'embedded'
    """
    return [check_one(name, root) for name in names()]


def check_one(name: str, root: str | Path | None = None) -> Finding:
    """Look for one data set; see `check`.

    Raises:
        UnknownNameError: When nothing is registered under the name.
    """
    source = find_source(name)
    if isinstance(source, Derived):
        return _check_parts(name, source, root)
    if source.embedded is not None:
        return Finding(name, "embedded", "", f"{source.summary}. Always there.")
    try:
        found = locate(name, source, root)
    except DataError:
        roots = data_roots(root)
        where = str(roots[0] / source.layouts[0].folders[0])
        return Finding(name, "missing", where, how_to_get(name, source, roots))
    where = str(found.folder)
    try:
        differing = _differing(found)
        if not differing:
            return Finding(name, "verified", where, f"{source.summary}.")
        reasons = f"Not as published, or not known: {', '.join(differing)}."
        found.layout.read(found.files)
    except MissingExtraError as error:
        return Finding(name, "unverified", where, f"{reasons} {error}")
    except (DataError, OSError) as error:
        return Finding(name, "damaged", where, str(error))
    return Finding(name, "unverified", where, f"{reasons} It can be read.")


def _check_parts(name: str, source: Derived, root: str | Path | None) -> Finding:
    """Return the worst of the findings about the data sets that one is made from."""
    parts = [check_one(part, root) for part in source.of]
    worst = max(parts, key=lambda part: _WORSE[part.status])
    faults = [
        f"'{part.name}' is {part.status}: {part.detail}"
        for part in parts
        if _WORSE[part.status] > 1
    ]
    return Finding(name, worst.status, worst.where, " ".join([f"{source.summary}.", *faults]))


def _differing(found: Found) -> list[str]:
    """Return the names of files whose checksum differs or is not known."""
    return [
        name
        for name, checksum in found.layout.files.items()
        if not checksum or checksum_of(found.files[name], checksum) != checksum
    ]
