"""The values that markers name: in result files, or computed from them by a function."""

import functools
import gzip
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.])")


class SourceError(ValueError):
    """A source that does not exist, or does not have what is asked for."""


def values_of(words: Sequence[str], folder: Path) -> list[float]:
    """Return the numbers that a marker `from:` names.

    Args:
        words: A result file and keys in it, or a Python file, a function and its arguments.
        folder: The folder of the page, from which files are named, as in links.

    Raises:
        SourceError: If there is no such thing.
    """
    file, *rest = words or [""]
    if file.endswith(".py"):
        found = [called(words, folder)]
    else:
        path = _existing(folder / file)
        if "results" not in path.relative_to(ROOT).parts:
            raise SourceError(f"a result should be in a folder `results`, not in {file}")
        if not rest:
            raise SourceError(f"a key of {file} should be named")
        found = [_looked_up(_read(path), key, file) for key in rest]
    flat = [v for value in found for v in (value if isinstance(value, list | tuple) else [value])]
    for value in flat:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SourceError(f"{' '.join(words)} should be numbers, and is {value!r}")
    return flat


def numbers_in(words: Sequence[str], folder: Path) -> list[float]:
    """Return all numbers of some lines of a log, as a marker `found in:` names them.

    Args:
        words: A text file of results, and for each line what it contains, spaces aside. In
            "a > b" it is the first line with b after the one with a.
        folder: The folder of the page.

    Raises:
        SourceError: If there is no such line.
    """
    file, *patterns = words or [""]
    path = _existing(folder / file)
    if "results" not in path.relative_to(ROOT).parts or path.suffix != ".txt" or not patterns:
        raise SourceError("`found in:` should name a .txt file in `results`, and lines of it")
    found: list[float] = []
    for pattern in patterns:
        lines = path.read_text(encoding="utf-8").splitlines()
        for part in pattern.split(" > "):
            wanted = re.compile(r"(?<!\S)" + r"\s+".join(map(re.escape, part.split())))
            at = next((i for i, line in enumerate(lines) if wanted.search(line)), None)
            if at is None:
                raise SourceError(f"{file} should have a line with '{part}'")
            line, lines = lines[at], lines[at + 1 :]
        found += [float(number) for number in NUMBER.findall(line)]
    return found


def text_of(words: Sequence[str], folder: Path) -> str:
    """Return what a marker `made by:` makes.

    Raises:
        SourceError: If there is no such function.
    """
    return str(called(words, folder))


def called(words: Sequence[str], folder: Path) -> Any:
    """Call a function of a Python file; an argument that names a file becomes its path."""
    file, name, *rest = [*words, "", ""][: max(len(words), 2)]
    function = getattr(_loaded(_existing(folder / file)), name, None)
    if name.startswith("_") or not isinstance(function, Callable):  # type: ignore[arg-type]
        raise SourceError(f"{file} should have a function `{name}`")
    return function(*((folder / word if (folder / word).is_file() else word) for word in rest))


def _existing(path: Path) -> Path:
    path = path.resolve()
    if not path.is_file() or not path.is_relative_to(ROOT):
        raise SourceError(f"{path.name} should be a file of the repository")
    return path


@functools.cache
def _loaded(path: Path) -> Any:
    """Import a file; modules beside it, which it imports by bare names, are forgotten again."""
    spec = importlib.util.spec_from_file_location(f"quoted_{path.parent.name}_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise SourceError(f"{path.name} should be a Python file")
    module = importlib.util.module_from_spec(spec)
    beside = {file.stem for file in path.parent.glob("*.py")}
    aside = {name: sys.modules.pop(name) for name in beside & set(sys.modules)}
    sys.modules[spec.name] = module  # dataclasses look their module up
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
        for name in beside:
            sys.modules.pop(name, None)
        sys.modules.update(aside)
    return module


@functools.cache
def _read(path: Path) -> Any:
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        return [json.loads(line) for line in content.splitlines()]
    try:
        return json.loads(content)
    except ValueError as error:
        raise SourceError(f"{path.name} should be JSON; other files need a function") from error


def _looked_up(value: Any, key: str, file: str) -> Any:
    for part in key.split("/"):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise SourceError(f"{file} should have `{key}`, and lacks `{part}`") from error
    return value
