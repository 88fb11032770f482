"""Downloading published files, atomically and verified by checksum."""

import gzip
import hashlib
import http.client
import io
import logging
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from unstale.data.registry import find_source
from unstale.data.roots import data_roots, how_to_get
from unstale.data.source import Derived, Download, checksum_of
from unstale.errors import DataError

logger = logging.getLogger(__name__)

Progress = Callable[[int, int | None], None]
"""Called as `(bytes so far, total bytes or None if the server does not tell)`, per file."""

BLOCK = 1 << 16
TIMEOUT_SECONDS = 30.0
MAX_BYTES = 2**31
"""Maximum size of a download; larger than any published file."""


def fetch(
    name: str,
    root: str | Path | None = None,
    progress: Progress | None = None,
    urls: Mapping[str, str] | None = None,
) -> Path:
    """Download the files of a data set into the first data root.

    Existing files with the right checksum are kept. Downloads get their final names only
    after they are complete and verified.

    Args:
        name: One of `names()`.
        root: The data root; see `data_roots` for the default.
        progress: Called now and then while a file comes in.
        urls: Other places to load from, by file name: a mirror of one's own.

    Returns:
        The folder that holds the files; the data root for a data set that is made from others,
        whose files are fetched.

    Raises:
        UnknownNameError: When nothing is registered under the name.
        DataError: Without a network, on a wrong checksum, or where there is
            nothing to download; then it says how to get the files instead.
    """
    source = find_source(name)
    if isinstance(source, Derived):
        for part in source.of:
            fetch(part, root, progress, urls)
        return data_roots(root)[0]
    if source.embedded is not None:
        raise DataError(f"Data set '{name}' is embedded: there is nothing to fetch. Just load it.")
    roots = data_roots(root)
    if not source.downloads:
        raise DataError(
            f"Data set '{name}' is not published in a form that could be fetched. "
            f"{how_to_get(name, source, roots)}"
        )
    known = source.layouts[0].files
    for download in source.downloads:
        mirror = (urls or {}).get(Path(download.path).name)
        try:
            _bring(download, roots[0], (mirror,) if mirror else download.urls, known, progress)
        except OSError as error:
            raise DataError(
                f"The files of '{name}' should be written under {roots[0]}. Found: {error}. "
                f"Choose another data root or make room."
            ) from error
    return roots[0] / source.layouts[0].folders[0]


def _bring(
    download: Download,
    root: Path,
    urls: tuple[str, ...],
    known: Mapping[str, str],
    progress: Progress | None,
) -> None:
    """Fetch one download (and unpack it) unless its files are there already."""
    if download.members:
        expected = {root / part: known.get(Path(part).name, "") for part in download.members}
    else:
        expected = {root / download.path: download.checksum}
    if all(_is_verified(path, checksum) for path, checksum in expected.items()):
        logger.info("%s is already there and verified", download.path)
        return
    target = root / download.path
    with _appearing(target, keep=not download.members) as part:
        _download_from_any(urls, part, download.checksum, progress)
        if download.members:
            _unpack(part, download.members, root)


def _is_verified(path: Path, checksum: str) -> bool:
    return bool(checksum) and path.is_file() and checksum_of(path, checksum) == checksum


@contextmanager
def _appearing(target: Path, keep: bool = True) -> Iterator[Path]:
    """Yield a temporary path next to `target`, renamed to it if no exception is raised."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
        if keep:
            part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _download_from_any(
    urls: tuple[str, ...], part: Path, checksum: str, progress: Progress | None
) -> None:
    """Download from the first of several URLs whose content has the right checksum."""
    failures = []
    for url in urls:
        try:
            with part.open("wb") as file:
                found = _copy(url, file, checksum, progress)
                _flush(file)
        except DataError as error:
            failures.append(str(error))
            continue
        if found == checksum:
            return
        failures.append(f"{url} should have the checksum {checksum}. Found {found}.")
    raise DataError(
        " ".join(failures) + " Nothing was kept. Try again later, or put the files into the data "
        "root by hand (`unstale data check` says where)."
    )


def _copy(url: str, file: IO[bytes], checksum: str, progress: Progress | None) -> str:
    """Copy the content of a URL to a file and return its checksum."""
    algorithm = checksum.partition(":")[0]
    digest = hashlib.new(algorithm, usedforsecurity=False)
    done = 0
    for block, total in _blocks(url):
        done += len(block)
        if done > MAX_BYTES:
            raise DataError(f"{url} should have at most {MAX_BYTES} bytes. Found more.")
        digest.update(block)
        file.write(block)
        if progress is not None:
            progress(done, total)
    return f"{algorithm}:{digest.hexdigest()}"


def _blocks(url: str) -> Iterator[tuple[bytes, int | None]]:
    """Yield the content of a URL in blocks, each with the announced total length."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise DataError(f"A download should come by http or https. Found {url}.")
    request = Request(url, headers={"User-Agent": "unstale"})  # noqa: S310 -- checked above
    try:
        with urlopen(request, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310 -- checked above
            length = response.headers.get("Content-Length") or ""
            total = int(length) if length.isdecimal() else None
            done = 0
            while block := response.read(BLOCK):
                done += len(block)
                yield block, total
    except (OSError, http.client.HTTPException) as error:
        raise DataError(f"{url} should be within reach. Found: {error}.") from error
    if total is not None and done != total:
        raise DataError(f"{url} should give {total} bytes. Found {done}: the connection broke off.")


def _unpack(archive: Path, members: tuple[str, ...], root: Path) -> None:
    """Extract the named regular files from a .tar.gz, and nothing else."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            entries = {entry.name: entry for entry in tar if entry.isreg()}
            for name in members:
                content = tar.extractfile(entries[name])
                with _appearing(root / name) as part, part.open("wb") as file:
                    # extractfile gives None only for what is no file: those are left out above.
                    shutil.copyfileobj(content or io.BytesIO(), file)
                    _flush(file)
    except KeyError as error:
        raise DataError(f"The archive should contain the file {error}. Found none.") from error
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"The archive should be a whole .tar.gz. Found: {error}.") from error


def _flush(file: IO[bytes]) -> None:
    """Flush to disk before the rename, so that a crash cannot leave an empty file."""
    file.flush()
    os.fsync(file.fileno())
