"""The group of commands, and how errors become one line and an exit code."""

import logging
import sys
from collections.abc import Sequence
from typing import Any

import click

from unstale import __version__
from unstale.cli.audit import audit
from unstale.cli.check import check
from unstale.cli.data import data
from unstale.cli.keep import keep
from unstale.cli.methods import methods
from unstale.cli.options import HELP
from unstale.cli.report import report
from unstale.cli.reproduce import reproduce
from unstale.cli.run import run
from unstale.cli.watch import watch
from unstale.errors import ConfigError, UnstaleError
from unstale.out_places import is_full

FAILED, BAD_USAGE = 1, 2


@click.group(context_settings=HELP)
@click.version_option(__version__, prog_name="unstale")
@click.option("--debug", is_flag=True, help="Show tracebacks and debug messages.")
@click.pass_context
def cli(context: click.Context, debug: bool) -> None:
    """Federated learning in which slow devices hold data that nobody else has."""
    context.obj = {"debug": debug}
    logging.basicConfig(
        level=logging.DEBUG if debug else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s" if debug else "%(message)s",
        stream=sys.stderr,
    )
    if debug:  # what other libraries say at that level drowns ours
        for noisy in ("matplotlib", "PIL"):
            logging.getLogger(noisy).setLevel(logging.INFO)


for command in (run, watch, check, audit, methods, report, keep, reproduce, data):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; the entry point of the `unstale` script."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        result: Any = cli.main(args=given, prog_name="unstale", standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(FAILED)
    except click.ClickException as error:
        error.show()
        sys.exit(BAD_USAGE)
    except Exception as error:
        if "--debug" in given:
            raise
        click.echo(f"Error: {describe(error)}", err=True)
        sys.exit(BAD_USAGE if isinstance(error, ConfigError) else FAILED)
    sys.exit(result if isinstance(result, int) else 0)


def describe(error: BaseException) -> str:
    """Return one message for the user, without a traceback."""
    if isinstance(error, UnstaleError):
        return str(error)
    if isinstance(error, OSError):
        place = f" ({error.filename})" if error.filename else ""
        if is_full(error):
            return (
                f"The disk should have room for the run folder. Found it full{place}: "
                f"{error.strerror}. Free some space and go on with --resume."
            )
        return f"{error.strerror or error}{place}. Check the path and its permissions."
    if isinstance(error, MemoryError):
        return "Memory ran out. Use a smaller model, fewer clients a round, or another machine."
    return (
        f"Something that should not happen: {type(error).__name__}: {error}. "
        "`unstale --debug …` shows where; please report it."
    )
