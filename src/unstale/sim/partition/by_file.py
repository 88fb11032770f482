"""Partition from a file: a table of samples and the clients that hold them."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unstale.errors import ConfigError
from unstale.sim.partition.base import Indices, class_counts

HEADER = ("sample", "client")


@dataclass(frozen=True, slots=True)
class ByFile:
    """Clients as a CSV file with the header `sample,client` says.

    `sample` is the index of a training sample, from 0; `client` is any name. Clients are sorted
    by their names, as numbers if all are. Samples without a row are on no client. Rows may be in
    any order. The seed does not matter.
    """

    path: str = ""
    """The CSV file."""

    def __post_init__(self) -> None:
        if not self.path:
            raise ConfigError(
                "Setting 'path' should name a CSV file. Found none. Add path = \"…\"."
            )

    def split(self, labels: Indices, users: npt.NDArray[Any] | None, seed: int) -> list[Indices]:
        """Return the sorted sample indices of every client of the file."""
        class_counts(labels)
        owner: dict[int, str] = {}
        for number, (cell, client) in self._rows():
            if not (cell.isascii() and cell.isdigit() and int(cell) < len(labels)):
                raise ConfigError(
                    f"Line {number} of {self.path} should name a sample from 0 to "
                    f"{len(labels) - 1}. Found '{cell}'. Correct the line."
                )
            if int(cell) in owner:
                raise ConfigError(
                    f"Line {number} of {self.path} should be the only one for sample {cell}. "
                    "Found an earlier one. Remove one of them."
                )
            owner[int(cell)] = client
        names = set(owner.values())
        numbers = all(name.isascii() and name.isdigit() for name in names)
        parts: dict[str, list[int]] = {
            name: [] for name in sorted(names, key=int if numbers else str)
        }
        for sample, client in sorted(owner.items()):
            parts[client].append(sample)
        return [np.asarray(part, dtype=np.int64) for part in parts.values()]

    def _rows(self) -> list[tuple[int, tuple[str, str]]]:
        """Return the line number and the cells of every row."""
        header = ",".join(HEADER)
        try:
            # utf-8-sig, because spreadsheets write a byte order mark
            with Path(self.path).open(encoding="utf-8-sig", newline="") as file:
                reader = csv.reader(file)
                lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise ConfigError(
                f"The partition {self.path} should be a readable CSV file with the header "
                f"{header}. Found: {error}. Check the path and the file."
            ) from error
        if not lines or tuple(lines[0][1]) != HEADER:
            found = f"'{','.join(lines[0][1])}'" if lines else "an empty file"
            raise ConfigError(
                f"The first line of {self.path} should be the header {header}. Found {found}."
            )
        if len(lines) == 1:
            raise ConfigError(
                f"{self.path} should have a line for at least one sample. Found none."
            )
        for number, cells in lines[1:]:
            if len(cells) != 2 or not all(cells):
                raise ConfigError(
                    f"Line {number} of {self.path} should be {header}. Found "
                    f"'{','.join(cells)}'. Correct the line."
                )
        return [(number, (cells[0], cells[1])) for number, cells in lines[1:]]
