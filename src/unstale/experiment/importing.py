"""Importing a user's modules: functions named in an experiment file, and plugins."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from unstale.errors import ConfigError, UnknownNameError, UnstaleError


@contextmanager
def importing_from(folders: Sequence[str]) -> Iterator[None]:
    """Have Python look for modules in these folders and the current one first."""
    before = list(sys.path)
    sys.path[:0] = [*folders, str(Path.cwd())]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = before


def function_named(place: str, where: str, folders: Sequence[str] = ()) -> Callable[..., Any]:
    """Return what `module:function` names; call it within `importing_from`.

    Args:
        place: The name.
        where: The key that holds it, for messages.
        folders: Where the module may lie, besides the current folder.

    Raises:
        ConfigError: If there is no such module, it cannot be imported, or it is another one of
            that name.
        UnknownNameError: If it has no such function; names the nearest.
    """
    name, function = split_place(place, where)
    module = _imported(name, f"`{where}`", folders)
    known = sorted(key for key, one in vars(module).items() if callable(one) and key[0] != "_")
    found = getattr(module, function, None)
    if found is None:
        raise UnknownNameError(f"The function of `{where}` in module '{name}'", function, known)
    if not callable(found):
        raise ConfigError(
            f"`{where}` should name a function. Found {place}, which is a {type(found).__name__}."
        )
    return found  # type: ignore[no-any-return]


def split_place(place: str, where: str) -> tuple[str, str]:
    """Return the module and the function of `module:function`.

    Raises:
        ConfigError: If it has another form.

    Example:
        >>> split_place("my_task.data:load", "data.factory")
        ('my_task.data', 'load')
    """
    module, _, function = place.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), function)):
        raise ConfigError(
            f"`{where}` should name a function as 'module:function', such as 'my_task:load' for "
            f"load in my_task.py. Found '{place}'."
        )
    return module, function


def load_plugin(path: str | Path) -> ModuleType:
    """Run a Python file that registers methods, data sets or models; once in a process.

    Raises:
        ConfigError: If there is no such file, or it fails.
    """
    file = Path(path).expanduser().resolve()
    if file.suffix != ".py" or not file.is_file():
        raise ConfigError(
            f"--plugin should name a Python file, such as my_methods.py. Found no such file: "
            f"{path}."
        )
    name = f"unstale_plugin_{file.stem}"
    known = sys.modules.get(name)
    if known is not None and known.__file__ == str(file):
        return known
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ConfigError(f"--plugin should name a Python file. Python cannot load {path}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        with importing_from([str(file.parent)]):
            spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, UnstaleError) or not isinstance(error, Exception):
            raise
        raise ConfigError(
            f"The plugin {path} should run without errors. Found {type(error).__name__}: {error}."
        ) from error
    return module


def _imported(name: str, what: str, folders: Sequence[str]) -> ModuleType:
    places = [*(Path(folder) for folder in folders), Path.cwd()]
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"{what} should name a module that can be imported. '{name}' needs "
                f"'{error.name}', which is not installed. Install it, or correct the module."
            ) from error
        looked = ", ".join(dict.fromkeys(str(place.resolve()) for place in places))
        raise ConfigError(
            f"{what} should name a module in the folder of the experiment file or in the current "
            f"one, or an installed one. Found no '{name}' in {looked}."
        ) from error
    except Exception as error:
        raise ConfigError(
            f"{what} should name a module that can be imported. '{name}' failed with "
            f"{type(error).__name__}: {error}."
        ) from error
    _check_same(module, name, what, places)
    return module


def _check_same(module: ModuleType, name: str, what: str, places: Sequence[Path]) -> None:
    """Raise ConfigError if a module of that name was imported before, from another file."""
    relative = Path(*name.split("."))
    beside = [
        found.resolve()
        for place in places
        for found in (place / relative.with_suffix(".py"), place / relative / "__init__.py")
        if found.is_file()
    ]
    used = getattr(module, "__file__", None)
    if beside and (used is None or Path(used).resolve() != beside[0]):
        raise ConfigError(
            f"{what} should name a module of its own. '{name}' is {beside[0]}, but this process "
            f"has imported {used or 'another one'} under that name. Rename the file."
        )
