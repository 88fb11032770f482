"""One method's JSON lines: one line for each round."""

import json
import math
import os
from pathlib import Path
from typing import Any

from unstale.errors import RunError
from unstale.files import write_whole


class Lines:
    """A file of lines: appended as rounds end, cut back to a checkpoint on resume."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[dict[str, Any]]:
        """Return the whole lines; a last line that was cut off is left out."""
        if not self.path.is_file():
            return []
        records: list[dict[str, Any]] = []
        # Bytes, and only b"\n": text would also be cut at the line separators of Unicode.
        *whole, _ = self.path.read_bytes().split(b"\n")
        for number, line in enumerate(whole, start=1):
            record = _record(line)
            if record is None:
                raise RunError(
                    f"Line {number} of {self.path} should be a JSON object. Found {line[:40]!r}. "
                    "Remove the file and use --resume to run this method again."
                )
            records.append(record)
        return records

    def cut(self, last: int) -> list[dict[str, Any]]:
        """Keep the lines of rounds up to `last` only and return them."""
        kept = [line for line in self.read() if _round_of(line) <= last]
        # Whole or not at all: the checkpoint relies on what is kept.
        write_whole(self.path, "".join(map(_line, kept)).encode())
        return kept

    def append(self, record: dict[str, Any]) -> None:
        """Add one round's record."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line(record))

    def flush(self) -> None:
        """Make sure that all lines are on the disk."""
        with self.path.open("a", encoding="utf-8") as file:
            os.fsync(file.fileno())


def _round_of(record: dict[str, Any]) -> float:
    number = record.get("round")
    return number if isinstance(number, int) else math.inf


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"
