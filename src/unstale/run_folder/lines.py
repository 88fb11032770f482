"""The file of one method's lines: one JSON line for each round, in the schema's form.

A run that is kept with its results has its lines compressed, as `seed-0.jsonl.gz`; see
`keep.py`. Everything that reads lines reads both.
"""

import gzip
import json
import os
import zlib
from pathlib import Path
from typing import Any

from unstale.errors import RunError
from unstale.files import write_whole
from unstale.run_folder.schema import DamageError, Round, VersionError

COMPRESSED = ".gz"
"""What the name of a compressed file of lines ends with, after `.jsonl`."""


def compress(lines: bytes) -> bytes:
    """Return lines as gzip, the same bytes for the same lines whenever and wherever."""
    return gzip.compress(lines, compresslevel=9, mtime=0)


def content_of(path: Path) -> bytes:
    """Return the lines of a file that may be compressed.

    Args:
        path: The file, compressed if its name says so.

    Raises:
        RunError: If it is compressed and damaged.
    """
    content = path.read_bytes()
    if path.suffix != COMPRESSED:
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise RunError(
            f"{path} should be lines in gzip's form. It is damaged: {error}. "
            "Take the file from where it was kept, or run its method again."
        ) from error


class Lines:
    """A file of lines: appended as rounds end, cut back to a checkpoint on resume."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[Round]:
        """Return the rounds of all whole lines; a last line that was cut off is left out.

        Raises:
            RunError: If a line is damaged, or of another version of the schema.
        """
        return [round for _, round in self._read()]

    def read_bytes(self) -> bytes:
        """Return all whole lines as they were written.

        Raises:
            RunError: As `read` does.
        """
        return b"".join(line + b"\n" for line, _ in self._read())

    def cut(self, last: int) -> list[Round]:
        """Keep the lines of rounds up to `last` only and return them.

        Raises:
            RunError: As `read` does.
        """
        kept = [(line, round) for line, round in self._read() if round.number <= last]
        # Whole or not at all: the checkpoint relies on what is kept.
        write_whole(self.path, b"".join(line + b"\n" for line, _ in kept))
        return [round for _, round in kept]

    def append(self, round: Round) -> None:
        """Add one round's line.

        Raises:
            ValueError: If it holds a number that is not finite, which is no JSON.
        """
        line = json.dumps(round.to_json(), ensure_ascii=False, allow_nan=False)
        # The same bytes everywhere: Windows would write "\r\n".
        with self.path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(line + "\n")

    def flush(self) -> None:
        """Make sure that all lines are on the disk."""
        with self.path.open("a", encoding="utf-8") as file:
            os.fsync(file.fileno())

    def _read(self) -> list[tuple[bytes, Round]]:
        kept = self.path.with_name(self.path.name + COMPRESSED)
        path = self.path if self.path.is_file() else kept
        if not path.is_file():
            return []
        # Bytes, and only b"\n": text would also be cut at the line separators of Unicode.
        *whole, _ = content_of(path).split(b"\n")
        return [(line, parsed(self.path, at, line)) for at, line in enumerate(whole, start=1)]


def parsed(path: Path, position: int, line: bytes) -> Round:
    """Return the round of one line, without its end.

    Raises:
        RunError: If it is damaged, or of another version of the schema; names file and line.
    """
    where = f"Line {position} of {path}"
    try:
        return Round.from_json(_object(line))
    except VersionError as error:
        raise RunError(f"{where} cannot be read. {error}") from error
    except DamageError as error:
        raise RunError(
            f"{where} is damaged. {error} "
            "Remove the file and use --resume to run this method again."
        ) from error


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise DamageError(f"It should be a JSON object. Found {line[:40]!r}.")
    return value
