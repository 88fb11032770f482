"""Every `unstale` command line that a page shows is one that the program takes."""

import shlex

import click
import pytest
from doc_pages import PAGES, ROOT, blocks_of, read

from unstale.cli.main import cli


def commands_of(text):
    """The arguments of every `$ unstale …` in the console blocks of a page."""
    found = []
    for block in blocks_of(text):
        if block.language != "console":
            continue
        for line in block.body.replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            if line.startswith("$ ") and words and words[0].rpartition("/")[2] == "unstale":
                found.append(words[1:])
    return found


def parse(arguments):
    """Read a command line as the program does, without doing anything.

    Raises:
        click.UsageError: If a command, an option or an argument is wrong.
    """
    command, context, rest = cli, None, list(arguments)
    name = "unstale"
    while isinstance(command, click.Group):
        context = click.Context(command, info_name=name, parent=context, **command.context_settings)
        _, rest, _ = command.make_parser(context).parse_args(rest)
        if not rest:
            return
        name, command, rest = command.resolve_command(context, rest)
    command.make_context(name, rest, parent=context)


COMMANDS = [(path, words) for path in PAGES if path.exists() for words in commands_of(read(path))]


@pytest.mark.parametrize(
    ("path", "words"),
    COMMANDS,
    ids=[f"{path.relative_to(ROOT).as_posix()}: {shlex.join(words)}" for path, words in COMMANDS],
)
def test_commands_parse(path, words):
    parse(words)


@pytest.mark.parametrize(
    "line", ["run --sed 1", "runs", "data chek", "report", "methods a b", "run --seeds"]
)
def test_a_wrong_command_is_found(line):
    with pytest.raises(click.UsageError):
        parse(shlex.split(line))


def test_commands_are_found():
    text = "```console\n$ .venv/bin/unstale run x.toml   # a remark\nunstale said this\n$ ls\n```\n"
    assert commands_of(text) == [["run", "x.toml"]]
    assert len(COMMANDS) > 10
