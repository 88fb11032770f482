"""What is said about a file that is not as its publisher made it, in one voice."""

from pathlib import Path

from unstale.errors import DataError


class MissingExtraError(DataError):
    """A data set needs an optional package; its files may be in order."""

    def __init__(self, name: str, package: str, extra: str) -> None:
        super().__init__(
            f"Data set '{name}' needs {package} to be read. It is not installed. "
            f'Run: pip install "unstale[{extra}]"'
        )


def damaged(path: Path, should: str, found: str) -> DataError:
    """Return the error for a file that should be one thing and was found to be another."""
    return DataError(
        f"{path} should {should}. Found {found}. The file is damaged or another one: put a good "
        f"copy in its place (`unstale data check` shows what is known about it)."
    )


def check_labels(path: Path, lowest: int, highest: int, low: int, high: int) -> None:
    """Refuse labels from `lowest` to `highest` that leave the range `low` to `high`.

    Raises:
        DataError: With the name of the file.
    """
    if lowest < low or highest > high:
        raise damaged(
            path, f"hold labels from {low} to {high}", f"labels from {lowest} to {highest}"
        )
