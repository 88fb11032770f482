"""`unstale watch`: how far runs are, in the terminal and as a page, while they go on."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unstale.cli.options import HELP

if TYPE_CHECKING:
    from unstale.watch import RunState, WatchedFolder

# Seconds between two looks, and between the lines of a log.
EVERY, QUIET_SECONDS = 1.0, 10.0

Show = Callable[[Sequence["RunState"]], None]


@click.command(context_settings=HELP)
@click.argument(
    "run_dirs", metavar="RUN_DIR...", type=click.Path(path_type=Path), nargs=-1, required=True
)
@click.option("--once", is_flag=True, help="Show the state as it is now, and end.")
@click.option("--json", "as_json", is_flag=True, help="Print each new state as a line of JSON.")
@click.option(
    "--page",
    is_flag=True,
    help="Also serve the report page, which follows the run, on this machine.",
)
@click.option("--port", type=click.IntRange(0, 65535), help="The port of --page [a free one].")
def watch(
    run_dirs: tuple[Path, ...], once: bool, as_json: bool, page: bool, port: int | None
) -> int:
    """Show how far the run in RUN_DIR is, in this process or another, until it has ended.

    A folder that is not there yet is waited for. The run does not notice: nothing is written and
    no lock is taken, and Ctrl-C ends the watching, not the run. With --page it serves the page
    until Ctrl-C, also when the run has ended.
    """
    from unstale.errors import ConfigError
    from unstale.watch import LivePage, PageServer, WatchedFolder
    from unstale.watch.words import state_in_words

    if once and page:
        raise ConfigError(
            "--once shows one state and ends, so it cannot serve a --page. Leave one out."
        )
    if port is not None and not page:
        raise ConfigError("--port is the port of the page. Add --page, or leave it out.")
    watched = [WatchedFolder(run_dir) for run_dir in run_dirs]
    with ExitStack() as stack:
        if page:
            server = stack.enter_context(PageServer(LivePage(run_dirs, state_in_words), port or 0))
            click.echo(f"Page: {server.url}  (this machine only; Ctrl-C ends it)", err=True)
        try:
            ended = _follow(watched, _shown(stack, once, as_json), once=once)
            while page and ended:
                time.sleep(EVERY)
        except KeyboardInterrupt:
            # Whatever runs there goes on.
            stack.close()
            click.echo("No longer watched.", err=True)
    return 0


def _follow(watched: Sequence["WatchedFolder"], show: Show, *, once: bool) -> bool:
    """Show states until all runs have ended."""
    while True:
        states = [one.look() for one in watched]
        show(states)
        if once or all(state.status == "ended" for state in states):
            return True
        time.sleep(EVERY)


def _shown(stack: ExitStack, once: bool, as_json: bool) -> Show:
    """Return what shows states: as JSON, live in a terminal, or as lines of a log."""
    from rich.console import Console
    from rich.live import Live

    from unstale.cli.watch_view import view

    if as_json:
        return _json_lines()
    console = Console()
    if once:
        return lambda states: console.print(view(states))
    if not console.is_terminal:
        return _log_lines()
    live = stack.enter_context(Live(console=console, auto_refresh=False))
    return lambda states: live.update(view(states, console.height), refresh=True)


def _json_lines() -> Show:
    said: list[str] = []

    def show(states: Sequence["RunState"]) -> None:
        found = [state.to_json() for state in states]
        # Ages change all the time and are no news.
        news = json.dumps([_without_times(one) for one in found])
        if said != [news]:
            said[:] = [news]
            value = found[0] if len(found) == 1 else {"runs": found}
            click.echo(json.dumps(value, ensure_ascii=False))

    return show


def _without_times(state: dict[str, Any]) -> dict[str, Any]:
    return {
        **{key: value for key, value in state.items() if key not in ("age", "seconds_left")},
        "parts": [{k: v for k, v in part.items() if k != "age"} for part in state["parts"]],
    }


def _log_lines() -> Show:
    from unstale.cli.watch_view import plain_lines

    said: dict[Path, tuple[float, tuple[str, int]]] = {}

    def show(states: Sequence["RunState"]) -> None:
        now = time.monotonic()
        for state in states:
            when, known = said.get(state.folder, (0.0, ("", 0)))
            news = (state.status, state.rounds)
            # A change of what the run does at once, rounds every few seconds.
            if news[0] != known[0] or (news != known and now - when >= QUIET_SECONDS):
                said[state.folder] = (now, news)
                click.echo("\n".join(plain_lines(state)))

    return show
