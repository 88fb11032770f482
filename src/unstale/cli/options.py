"""What all commands share."""

import os
from pathlib import Path
from typing import Any

import click

from unstale.out_places import require_file, require_folder

# Given to every command and not only to the group: click remembers a command's help option
# from the first context it meets, which need not be the group's.
HELP: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

plugin_option = click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="FILE.py",
    help="Run a Python file first that registers methods, data sets or models.",
)
"""The option of every command that can use what a plugin registers."""


class OutFolder(click.Path):
    """An option that names the folder of a run: refused where none can be made."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: Any, context: Any) -> Any:
        """Return the path, checked before anything is computed."""
        path = _given(self, value, param, context)
        require_folder(path, _name(param))
        return path


class OutFile(click.Path):
    """An option that names a file to write: refused where none can be written."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: Any, context: Any) -> Any:
        """Return the path, checked before anything is computed."""
        path = _given(self, value, param, context)
        require_file(path, _name(param))
        return path


def _given(kind: click.Path, value: Any, param: Any, context: Any) -> Path:
    if not str(value):
        kind.fail("It should be a path. Found an empty text. Name one, or leave the option out.")
    return Path(os.fsdecode(click.Path.convert(kind, value, param, context)))


def _name(param: Any) -> str:
    return str(param.opts[0]) if param is not None else "out"
