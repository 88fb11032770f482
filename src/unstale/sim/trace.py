"""Reading traces: CSV files with the latencies or absences of clients."""

import csv
from pathlib import Path

from unstale.errors import ConfigError


def read_trace(
    path: str, columns: tuple[str, ...], clients: int
) -> list[tuple[int, tuple[int, ...]]]:
    """Read a CSV file of integers whose first column is the index of a client.

    Args:
        path: The file, in UTF-8 with a header; blank lines are allowed.
        columns: The expected header.
        clients: Number of clients.

    Returns:
        The line number and the values of every row.

    Raises:
        ConfigError: If the file cannot be read, or a line is wrong.
    """
    header = ",".join(columns)
    try:
        # utf-8-sig, because spreadsheets write a byte order mark
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(
            f"The trace {path} should be a readable CSV file with the header {header}. "
            f"Found: {error}. Check the path and the file."
        ) from error
    if not lines or tuple(lines[0][1]) != columns:
        found = f"'{','.join(lines[0][1])}'" if lines else "an empty file"
        number = lines[0][0] if lines else 1
        raise ConfigError(
            f"Line {number} of {path} should be the header {header}. Found {found}. Add the header."
        )
    rows = []
    for number, cells in lines[1:]:
        if len(cells) != len(columns) or not all(c.isascii() and c.isdigit() for c in cells):
            raise ConfigError(
                f"Line {number} of {path} should be {len(columns)} whole numbers ({header}), "
                f"none below 0. Found '{','.join(cells)}'. Correct the line."
            )
        values = tuple(int(cell) for cell in cells)
        if values[0] >= clients:
            raise ConfigError(
                f"Line {number} of {path} should name a client from 0 to {clients - 1}. "
                f"Found {values[0]}. Remove the line, or raise the number of clients."
            )
        rows.append((number, values))
    return rows


def check_path(path: str) -> None:
    """Raise ConfigError if the path is empty."""
    if not path:
        raise ConfigError("Setting 'path' should name a CSV file. Found none. Add path = \"…\".")
