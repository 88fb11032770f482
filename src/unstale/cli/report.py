"""`unstale report`: the page and the plots of a run folder, or one page of several."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unstale.cli.options import HELP, OutFile

if TYPE_CHECKING:
    from unstale.report import Run

# How many methods and seeds with missing rounds are named.
_MOST = 5


@click.command(context_settings=HELP)
@click.argument(
    "run_dirs", metavar="RUN_DIR...", type=click.Path(path_type=Path), nargs=-1, required=True
)
@click.option(
    "--out",
    type=OutFile(),
    help="Write the page to this file. Default: report.html in the run folder; of several runs, "
    "comparison.html here.",
)
@click.option(
    "--csv",
    "csv_file",
    type=OutFile(),
    help="Also write every round to this file, a row per method, seed and round.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary for programs.")
def report(
    run_dirs: tuple[Path, ...], out: Path | None, csv_file: Path | None, as_json: bool
) -> None:
    """Make the report page and the plots of RUN_DIR from its files alone.

    Of several run folders it makes one page and one table with the methods of all. Methods that
    two folders have are told apart by folder, and settings in which the scenarios differ are
    said.
    """
    if len(run_dirs) == 1:
        _one(run_dirs[0], out, as_json)
    else:
        _several(run_dirs, out or Path("comparison.html"), as_json)
    if csv_file is not None:
        _export(run_dirs, csv_file)
        if not as_json:
            click.echo(f"Rounds: {csv_file}")


def _one(run_dir: Path, out: Path | None, as_json: bool) -> None:
    from unstale.cli.tables import summary_table
    from unstale.cli.tuning import tuning_table
    from unstale.report import read_run, write_report
    from unstale.report.as_summary import as_summary
    from unstale.report.context import Context
    from unstale.run_folder import RunFolder, for_programs

    run = read_run(run_dir)
    page = write_report(run_dir, out)
    _warn(run_dir, run)
    folder = RunFolder(run_dir)
    if as_json:
        found: dict[str, Any] = for_programs(folder) if run.finished else {"run": str(run_dir)}
        if run.missing:
            found["missing"] = [str(one) for one in run.missing]
        click.echo(json.dumps({**found, "report": str(page)}, indent=2, ensure_ascii=False))
        return
    if run.finished:
        summary = for_programs(folder)
        summary_table(summary)
        if "tuning" in summary:
            tuning_table(summary["tuning"])
    elif run.missing:
        summary_table(as_summary(Context.of(run), f"{run.title}: provisional, rounds are missing"))
    click.echo(f"Report: {page}")


def _several(run_dirs: tuple[Path, ...], out: Path, as_json: bool) -> None:
    from unstale.cli.tables import summary_table
    from unstale.report import write_comparison
    from unstale.report.as_summary import as_summary

    found = write_comparison(run_dirs, out)
    for run_dir, run in zip(run_dirs, found.runs, strict=True):
        _warn(run_dir, run)
    summary = as_summary(found.context, ", ".join(found.names))
    differing = {one.key: list(one.values) for one in found.differing}
    if as_json:
        more = {"runs": [str(run_dir) for run_dir in run_dirs], "differing": differing}
        told = {**summary, **more, "report": str(out)}
        click.echo(json.dumps(told, indent=2, ensure_ascii=False))
        return
    if summary["methods"]:
        summary_table(summary, mark=found.same)
    if not found.same:
        click.echo("Not the same scenario; compare methods within a run. The runs differ in:")
        for key, values in differing.items():
            pairs = zip(found.names, values, strict=True)
            click.echo(f"  {key}: {'; '.join(f'{name} {value}' for name, value in pairs)}")
    if not found.same_seeds:
        click.echo("Not the same seeds: means are over the seeds that each run has.")
    if found.shared:
        click.echo(f"The same to the bit in several runs, shown once: {', '.join(found.shared)}")
    click.echo(f"Report: {out}")


def _warn(run_dir: Path, run: "Run") -> None:
    """Name missing rounds on stderr."""
    missing = [str(one) for one in run.missing]
    if not missing:
        return
    more = f"; and {len(missing) - _MOST} more" if len(missing) > _MOST else ""
    meaning = (
        "Nothing can be computed anew; numbers are those of the summary alone."
        if run.finished
        else "The summary is not used; numbers are provisional, from the rounds that are there."
    )
    click.echo(
        f"Warning: {run_dir} has a summary, but not all rounds that it is of: "
        f"{'; '.join(missing[:_MOST])}{more}. {meaning} Copy the folder again, or run it anew.",
        err=True,
    )


def _export(run_dirs: tuple[Path, ...], csv_file: Path) -> None:
    from unstale.files import write_whole
    from unstale.report import read_run
    from unstale.report.compare import short_names
    from unstale.report.export import as_csv

    text = as_csv(short_names(run_dirs), [read_run(run_dir) for run_dir in run_dirs])
    write_whole(csv_file, text.encode("utf-8", "replace"))
