"""The registry of data sets: `load`, `names` and `register`."""

from pathlib import Path

from unstale.data.dataset import Dataset
from unstale.data.roots import locate
from unstale.data.source import Derived, Source
from unstale.errors import ConfigError, DataError, UnknownNameError

SOURCES: dict[str, Source | Derived] = {}


def register(name: str, source: Source | Derived, *, force: bool = False) -> None:
    """Make a data set available to `load`, experiment files and the command line.

    Args:
        name: The name of the data set.
        source: Where its files are and how they are read, or which others it is made from.
        force: Replace one that has the name already.

    Raises:
        ConfigError: When the name is empty or taken and `force` is false.

    Example:
        >>> import torch
        >>> from unstale import data
        >>> def read(files):
        ...     x, y = torch.rand(8, 3), torch.arange(8) % 2
        ...     return data.Dataset("coin", x, y, x, y, ("head", "tail"), 0.0, 1.0)
        >>> data.register("coin", data.Source("a made-up one", (data.Layout(read),)), force=True)
        >>> data.load("coin").input_shape
        (3,)
    """
    if not name:
        raise ConfigError("The name of a data set should not be empty. Found ''. Pass a name.")
    if name in SOURCES and not force:
        raise ConfigError(
            f"The name of a data set should be new. Found '{name}', which is registered. "
            f"Choose another name or pass force=True."
        )
    SOURCES[name] = source


def names() -> tuple[str, ...]:
    """Return the names of all data sets, in the order in which they were registered."""
    return tuple(SOURCES)


def find_source(name: str) -> Source | Derived:
    """Return the source that is registered under a name.

    Raises:
        UnknownNameError: If there is none.
    """
    if name not in SOURCES:
        raise UnknownNameError("The data set", name, SOURCES)
    return SOURCES[name]


def load(name: str, root: str | Path | None = None) -> Dataset:
    """Load a data set.

    The structure of files is checked, but not their checksums (see `check`). Nothing is
    cached: every call reads the files again.

    Args:
        name: One of `names()`.
        root: The only data root to look in; see `data_roots` for the default.

    Returns:
        The scaled data set, always with the same train and test part.

    Raises:
        UnknownNameError: If no data set has the name.
        DataError: If files are missing or damaged.

    Example:
        >>> from unstale import data
        >>> digits = data.load("digits")
        >>> digits.input_shape, len(digits.y_train), len(digits.y_test)
        ((1, 8, 8), 1297, 500)
    """
    source = find_source(name)
    if isinstance(source, Derived):
        return source.make({part: _load_part(name, source, part, root) for part in source.of})
    found = locate(name, source, root)
    try:
        return found.layout.read(found.files)
    except OSError as error:  # no permission, a disk that fails
        raise DataError(
            f"The files of '{name}' in {found.folder} should be readable. Found: {error}."
        ) from error


def _load_part(name: str, source: Derived, part: str, root: str | Path | None) -> Dataset:
    """Load one of the data sets that another is made from."""
    try:
        return load(part, root)
    except DataError as error:
        others = " and ".join(f"'{other}'" for other in source.of)
        raise DataError(f"Data set '{name}' is made from {others}. {error}") from error
