"""`unstale run`: an experiment into a run folder."""

import json
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from unstale.cli.options import HELP, OutFolder, plugin_option

if TYPE_CHECKING:
    from unstale.sinks import Sink


@click.command(context_settings=HELP)
@click.argument("experiment", default="quickstart")
@click.option("--out", type=OutFolder(), help="The run folder [runs/NAME-NNN].")
@click.option("--resume", is_flag=True, help="Go on with the latest run (or --out) that stopped.")
@click.option("--seeds", metavar="0,1,2", help="Instead of the file's seeds.")
@click.option("--methods", metavar="A,B", help="Only these: labels of the file, or any methods.")
@plugin_option
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a setting.")
@click.option("--tune", is_flag=True, help="First choose settings from the methods' lists.")
@click.option(
    "--tuned",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Use the settings that the tuned run RUN chose.",
)
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda, cuda:1, …")
@click.option("--data", "data_root", metavar="DIR", help="The data root; else UNSTALE_DATA.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Methods and seeds at once.")
@click.option("--threads", type=int, help="CPU threads of each job [the file's, else 1].")
@click.option(
    "--sink",
    "sinks",
    multiple=True,
    metavar="NAME",
    help="Also send every round to tensorboard, mlflow, wandb, or a class of yours as "
    "module:Class. May be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary for programs on stdout.")
@click.option(
    "--surrogates",
    is_flag=True,
    help="Write some surrogates into the run folder, for the report page.",
)
@click.option("--no-report", is_flag=True, help="Do not make the page and the plots.")
def run(
    experiment: str,
    out: Path | None,
    resume: bool,
    seeds: str | None,
    methods: str | None,
    plugins: tuple[str, ...],
    overrides: tuple[str, ...],
    tune: bool,
    tuned: Path | None,
    device: str,
    data_root: str | None,
    jobs: int,
    threads: int | None,
    sinks: tuple[str, ...],
    as_json: bool,
    surrogates: bool,
    no_report: bool,
) -> int:
    """Run EXPERIMENT: a TOML file, a folder with a config.toml, or one that is packaged.

    Packaged are `quickstart` and `quickstart_paper`.
    """
    from rich.console import Console

    from unstale.cli.progress import LiveProgress
    from unstale.cli.tables import summary_table
    from unstale.cli.tuning import find_tuned, plan_in_words, tuning_table
    from unstale.errors import ConfigError
    from unstale.experiment import (
        RunFolder,
        for_programs,
        latest_folder,
        load_experiment,
        load_tuned,
        next_folder,
        run_experiment,
        tuning_of,
    )

    if threads is not None:
        overrides = (*overrides, f"threads={threads}")
    if surrogates:
        overrides = (*overrides, "storage.surrogates=true")
    config = load_experiment(
        experiment,
        overrides=overrides,
        seeds=parse_seeds(seeds),
        methods=None if methods is None else methods.split(","),
        plugins=plugins,
    )
    parent = Path("runs")
    if out is not None:
        folder = RunFolder(out)
    else:
        latest = latest_folder(parent, config.name) if resume else None
        folder = latest or next_folder(parent, config.name)
    if folder.is_run and not resume:
        raise ConfigError(
            f"A new run should have a folder of its own. {folder.path} holds one already. "
            "Add --resume to go on with it, or choose another --out."
        )
    if resume and not folder.is_run:
        click.echo("Nothing to resume yet; starting from the beginning.", err=True)
    receivers = _sinks(sinks)
    source = find_tuned(config, experiment, folder, tune=tune, tuned=tuned)
    known = None if source is None else load_tuned(source)
    for line in plan_in_words(config, tuning_of(config, folder, tune=tune, tuned=known), source):
        click.echo(line, err=True)
    prefer_repeatable(device)
    page = None
    try:
        with sigterm_as_interrupt():
            with LiveProgress(Console(stderr=True)) as progress:
                run_experiment(
                    config,
                    folder,
                    device=device,
                    data_root=data_root,
                    progress=progress,
                    command=shlex.join(["unstale", *sys.argv[1:]]),
                    jobs=jobs,
                    tune=tune,
                    tuned=known,
                    sinks=receivers,
                )
            if not no_report:
                from unstale.report import write_report

                page = write_report(folder.path)
    except KeyboardInterrupt:
        command = _resume_command(
            experiment,
            folder.path,
            overrides,
            seeds,
            methods,
            plugins,
            tune,
            tuned,
            device,
            data_root,
            jobs,
            sinks,
            as_json,
            no_report,
        )
        click.echo(f"\nStopped. Go on with: {command}", err=True)
        return 1
    summary = for_programs(folder)
    if as_json:
        found = summary if page is None else {**summary, "report": str(page)}
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    summary_table(summary)
    if "tuning" in summary:
        tuning_table(summary["tuning"])
    click.echo(f"Run: {folder.path}")
    if page is not None:
        click.echo(f"Report: {page}")
    return 0


def parse_seeds(text: str | None) -> list[int] | None:
    """Return the seeds of an option `--seeds`.

    Raises:
        ConfigError: If it is no list of whole numbers.
    """
    from unstale.errors import ConfigError

    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(
            f"--seeds should be whole numbers with commas between, as 0,1,2. Found {text!r}."
        ) from error


def _sinks(names: tuple[str, ...]) -> list["Sink"]:
    """Return the sinks of an option `--sink`; modules are looked for in the current folder, too."""
    from unstale.experiment.importing import importing_from
    from unstale.sinks import as_sinks

    with importing_from([]):
        return as_sinks(names)


def prefer_repeatable(device: str) -> None:
    """Make convolutions on a GPU give the same numbers for the same seed."""
    if device.startswith("cuda"):
        import torch

        # Same seed, same numbers: the fastest convolution algorithms sum in a varying order.
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Let SIGTERM stop as cleanly as Ctrl-C: what runs under a scheduler gets that first."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _resume_command(
    experiment: str,
    folder: Path,
    overrides: tuple[str, ...],
    seeds: str | None,
    methods: str | None,
    plugins: tuple[str, ...],
    tune: bool,
    tuned: Path | None,
    device: str,
    data_root: str | None,
    jobs: int,
    sinks: tuple[str, ...],
    as_json: bool,
    no_report: bool,
) -> str:
    """Return the command that goes on, with everything that shaped this one."""
    parts = ["unstale", "run", experiment, "--out", str(folder), "--resume"]
    parts += [part for override in overrides for part in ("--set", override)]
    parts += ["--seeds", seeds] if seeds else []
    parts += ["--methods", methods] if methods else []
    parts += [part for plugin in plugins for part in ("--plugin", plugin)]
    parts += ["--tune"] if tune else []
    parts += ["--tuned", str(tuned)] if tuned else []
    parts += ["--device", device] if device != "cpu" else []
    parts += ["--data", data_root] if data_root else []
    parts += ["--jobs", str(jobs)] if jobs != 1 else []
    parts += [part for sink in sinks for part in ("--sink", sink)]
    parts += ["--json"] if as_json else []
    parts += ["--no-report"] if no_report else []
    return shlex.join(parts)
