"""Following the lines of a method while another process writes them.

Reading takes no lock and opens files for reading only, so the writer never notices.
"""

import os
from pathlib import Path

from unstale.run_folder.lines import COMPRESSED, content_of, parsed
from unstale.run_folder.schema import Round


class Tail:
    """The rounds of one file of lines, read on where the last look ended.

    A line that is half written is left for the next look. A file that a resume has cut back, or
    replaced, is read anew.

    Args:
        path: The file, which need not be there yet; the compressed one of a kept run will do.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rounds: dict[int, Round] = {}
        """What was read so far, by number."""
        self.changed: float | None = None
        """When the file was last written, in seconds since 1970; None while there is none."""
        self._file: tuple[int, int] | None = None  # its device and inode
        self._offset = 0
        self._lines = 0

    @property
    def mark(self) -> tuple[tuple[int, int] | None, int, float | None]:
        """What tells whether anything has changed: the file, how far it was read, and its time."""
        return self._file, self._offset, self.changed

    def read(self) -> list[Round]:
        """Return the rounds that have come since the last look.

        Raises:
            RunError: If a whole line is damaged, or of another version of the schema.
        """
        try:
            with self.path.open("rb") as file:
                found = os.fstat(file.fileno())
                if (found.st_dev, found.st_ino) != self._file or found.st_size < self._offset:
                    self._forget()
                self._file = (found.st_dev, found.st_ino)
                self.changed = found.st_mtime
                file.seek(self._offset)
                content = file.read()
        except FileNotFoundError:
            return self._read_kept()
        return self._take(content)

    def _forget(self) -> None:
        self.rounds.clear()
        self._offset = self._lines = 0

    def _read_kept(self) -> list[Round]:
        kept = self.path.with_name(self.path.name + COMPRESSED)
        if not kept.is_file():
            self._forget()
            self._file = self.changed = None
            return []
        changed = kept.stat().st_mtime
        if self.changed == changed:
            return []
        self._forget()
        self._file, self.changed = None, changed
        return self._take(content_of(kept))

    def _take(self, content: bytes) -> list[Round]:
        *whole, rest = content.split(b"\n")
        self._offset += len(content) - len(rest)
        found = []
        for line in whole:
            self._lines += 1
            found.append(parsed(self.path, self._lines, line))
        self.rounds.update((one.number, one) for one in found)
        return found
