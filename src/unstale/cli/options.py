"""What all commands share."""

from typing import Any

import click

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
