"""`unstale reproduce`: the tables and figures of the paper, listed, run, shown and kept."""

import json
import shlex
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unstale.cli.options import HELP, OutFolder

if TYPE_CHECKING:
    from unstale.reproduce import Catalogue, Item
    from unstale.reproduce.run import Options

OUT = {"full": Path("runs") / "reproduce", "cpu": Path("runs") / "reproduce-cpu"}


@click.command(context_settings=HELP)
@click.argument("name", required=False)
@click.option("--list", "only_list", is_flag=True, help="List all with their state (the default).")
@click.option(
    "--smoke", is_flag=True, help="Run it in seconds, on generated data; all without NAME."
)
@click.option(
    "--size",
    type=click.Choice(list(OUT)),
    default="full",
    show_default=True,
    help="cpu: other models, fewer samples and rounds, for two CPU cores.",
)
@click.option("--table", "only_table", is_flag=True, help="Run nothing: show the kept results.")
@click.option(
    "--keep", is_flag=True, help="Afterwards keep what is done in experiments/NAME/results."
)
@click.option("--only", metavar="A,B", help="Only these runs of it, by name.")
@click.option(
    "--out",
    type=OutFolder(),
    help=f"The folder of all runs [{OUT['full'].as_posix()}, or {OUT['cpu'].as_posix()}].",
)
@click.option("--seeds", metavar="10,11,12", help="Instead of the files' seeds.")
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda, cuda:1, …")
@click.option("--data", "data_root", metavar="DIR", help="The data root; else UNSTALE_DATA.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Methods and seeds at once.")
@click.option(
    "--experiments",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The folder `experiments` of the repository, if it is not found.",
)
@click.option("--json", "as_json", is_flag=True, help="Print for programs on stdout.")
def reproduce(
    name: str | None,
    only_list: bool,
    smoke: bool,
    size: str,
    only_table: bool,
    keep: bool,
    only: str | None,
    out: Path | None,
    seeds: str | None,
    device: str,
    data_root: str | None,
    jobs: int,
    experiments: Path | None,
    as_json: bool,
) -> int:
    """Make the table or figure NAME of the paper, or list all of them.

    NAME is an item of the list, or what it makes, as "Table 9". A run that was stopped goes on
    where it was when the same command is given again.
    """
    from unstale.errors import ConfigError
    from unstale.reproduce import at_cpu_size, find_experiments, read_catalogue

    catalogue = read_catalogue(find_experiments(experiments))
    if only_list or (name is None and not smoke):
        if name is not None or only_table or keep:
            raise ConfigError(
                "`unstale reproduce` should list, or run one NAME. Found options of both. "
                "Leave out --list, or name an item."
            )
        _list(catalogue, as_json)
        return 0
    items = [*catalogue.items] if name is None else [catalogue.find(name)]
    if size == "cpu":
        if smoke or name is None:
            raise ConfigError(
                "--size cpu should go with the NAME of an item, and without --smoke. "
                "`unstale reproduce` lists the items."
            )
        items = [at_cpu_size(items[0])]
    if only_table or (smoke and keep):
        if smoke:
            raise ConfigError(
                "A smoke run is no result. Found --smoke beside --table or --keep. Leave out one."
            )
        _show(catalogue, items[0], None, as_json)
        return 0
    with tempfile.TemporaryDirectory() if smoke and out is None else nullcontext() as folder:
        place = out or (Path(folder) if folder else OUT[size])
        options = _options(place, smoke, seeds, device, data_root, jobs, only)
        for item in items:
            if not _run(item, options):
                click.echo(f"\nStopped. Go on with: {_again()}", err=True)
                return 1
            if keep:
                _keep(item, place)
            _show(catalogue, item, options, as_json)
    return 0


def _options(
    out: Path,
    smoke: bool,
    seeds: str | None,
    device: str,
    data_root: str | None,
    jobs: int,
    only: str | None,
) -> "Options":
    from unstale.cli.run import parse_seeds
    from unstale.reproduce.run import Options

    given = parse_seeds(seeds)
    return Options(
        out,
        smoke,
        None if given is None else tuple(given),
        device,
        data_root,
        jobs,
        tuple(only.split(",")) if only else (),
        shlex.join(["unstale", *sys.argv[1:]]),
    )


def _run(item: "Item", options: "Options") -> bool:
    """Run an item; return whether it came to its end."""
    from rich.console import Console

    from unstale.cli.item_progress import LiveItemProgress
    from unstale.cli.run import prefer_repeatable, sigterm_as_interrupt
    from unstale.reproduce.run import run_item

    prefer_repeatable(options.device)
    try:
        with (
            sigterm_as_interrupt(),
            LiveItemProgress(Console(stderr=True), item, options.jobs) as progress,
        ):
            run_item(item, options, progress)
    except KeyboardInterrupt:
        return False
    return True


def _again() -> str:
    return shlex.join(["unstale", *sys.argv[1:]])


def _keep(item: "Item", out: Path) -> None:
    from unstale.report import write_report
    from unstale.reproduce import keep_item
    from unstale.run_folder import RunFolder

    for run in item.runs:
        folder = RunFolder(out / run.item / run.name)
        if run.item == item.name and folder.is_done:
            write_report(folder.path)  # its plots are kept, too
    for path in keep_item(item, out):
        click.echo(f"Kept: {path}", err=True)


def _list(catalogue: "Catalogue", as_json: bool) -> None:
    from unstale.cli.item_tables import besides, listed, print_list

    rows = listed(catalogue)
    if as_json:
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    else:
        print_list(rows, besides(catalogue))


def _show(catalogue: "Catalogue", item: "Item", options: "Options | None", as_json: bool) -> None:
    """Show an item's tables: of the runs under way, or as they are kept."""
    from unstale.cli.item_tables import print_tables
    from unstale.reproduce import kept_places, tables_of
    from unstale.reproduce.run import place_in

    def place(part: Any) -> Path:
        return kept_places(item, part) if options is None else place_in(options.out, part)

    smoke = options is not None and options.smoke
    tables = tables_of(item, place, None if options is None else options.script_seeds)
    if as_json:
        found = {
            "item": item.name,
            "smoke": smoke,
            "makes": [catalogue.entry(label).name for label in item.makes],
            "tables": [table.to_json() for table in tables],
        }
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    print_tables(catalogue, item, tables, smoke=smoke)
