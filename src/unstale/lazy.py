"""Public names of a package that are loaded when they are first used (PEP 562).

Importing torch takes two seconds. A package whose `__init__` loads its names by `lazy_names`
costs nothing until one of them is used, so `unstale --help` answers at once.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from unstale.errors import ConfigError


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package's `__init__`.

    No name may also be the name of a module in the package: once that module is imported, it
    is what Python finds first, and `__getattr__` is not asked.

    Args:
        package: The package's `__name__`.
        homes: The names to load, by the module that each comes from.

    Example:
        >>> __getattr__, __dir__ = lazy_names("unstale", {"unstale.errors": ("DataError",)})
        >>> __getattr__("DataError").__name__
        'DataError'
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, value)  # found without this function from now on
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return load, listed


def load_named(place: str) -> Any:
    """Return what `"package.module:Name"` names.

    Raises:
        ConfigError: If there is no colon, or nothing of that name.

    Example:
        >>> load_named("unstale.errors:DataError").__name__
        'DataError'
    """
    module, _, name = place.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"A class should be named as 'package.module:Class'. Found '{place}' ({error})."
        ) from error
