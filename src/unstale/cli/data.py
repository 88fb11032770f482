"""`unstale data`: which data sets are there, and how to get the others."""

import json
from dataclasses import asdict

import click

from unstale.cli.options import HELP

_COLOURS = {"embedded": "green", "verified": "green", "unverified": "yellow", "damaged": "red"}


@click.group(context_settings=HELP)
def data() -> None:
    """Find, verify and fetch data sets."""


@data.command(context_settings=HELP)
@click.option(
    "--data", "root", metavar="DIR", help="The data root; else UNSTALE_DATA, else the cache."
)
@click.option("--json", "as_json", is_flag=True, help="Print for programs.")
def check(root: str | None, as_json: bool) -> None:
    """List which data sets are found, where, and whether they are as published."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from unstale import data as sets

    findings = sets.check(root)
    if as_json:
        click.echo(json.dumps([asdict(f) for f in findings], indent=2, ensure_ascii=False))
        return
    table = Table(box=None, pad_edge=False)
    for column in ("data set", "status", "where", "detail"):
        table.add_column(column, overflow="fold")
    for finding in findings:
        colour = _COLOURS.get(finding.status, "dim")
        # As texts: a path may hold brackets, which would be read as markup.
        status = Text(finding.status, style=colour)
        table.add_row(finding.name, status, Text(finding.where), Text(finding.detail))
    Console().print(table)


@data.command(context_settings=HELP)
@click.argument("name")
@click.option(
    "--data", "root", metavar="DIR", help="The data root; else UNSTALE_DATA, else the cache."
)
def fetch(name: str, root: str | None) -> None:
    """Download the published files of NAME, verified by checksum."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    from unstale import data as sets

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=console) as bars:
        task = bars.add_task(f"Fetching {name}", total=None)

        def advance(done: int, total: int | None) -> None:
            bars.update(task, completed=done, total=total)

        where = sets.fetch(name, root, progress=advance)
    click.echo(f"{name} is in {where}")
