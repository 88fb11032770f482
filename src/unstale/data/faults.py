"""Errors about damaged files, with a common wording."""

from pathlib import Path

from unstale.errors import DataError


class MissingExtraError(DataError):
    """Reading a data set needs an optional package that is not installed."""

    def __init__(self, name: str, package: str, extra: str) -> None:
        super().__init__(
            f"Data set '{name}' needs {package} to be read. It is not installed. "
            f'Run: pip install "unstale[{extra}]"'
        )


def damaged(path: Path, should: str, found: str) -> DataError:
    """Return the DataError for a file that is not as it should be."""
    return DataError(
        f"{path} should {should}. Found {found}. The file is damaged or another one: put a good "
        f"copy in its place (`unstale data check` shows what is known about it)."
    )


def check_labels(path: Path, lowest: int, highest: int, low: int, high: int) -> None:
    """Check that labels from `lowest` to `highest` are within `low` to `high`.

    Raises:
        DataError: If they are not; names the file.
    """
    if lowest < low or highest > high:
        raise damaged(
            path, f"hold labels from {low} to {high}", f"labels from {lowest} to {highest}"
        )
