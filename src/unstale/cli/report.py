"""`unstale report`: the page and the plots of a run folder."""

import json
from pathlib import Path

import click

from unstale.cli.options import HELP


@click.command(context_settings=HELP)
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the summary for programs.")
def report(run_dir: Path, as_json: bool) -> None:
    """Make the report page and the plots of RUN_DIR from its files alone."""
    from unstale.cli.tables import summary_table
    from unstale.cli.tuning import tuning_table
    from unstale.report import write_report
    from unstale.run_folder import RunFolder, for_programs

    page = write_report(run_dir)
    folder = RunFolder(run_dir)
    if as_json:
        found = for_programs(folder) if folder.is_done else {"run": str(run_dir)}
        click.echo(json.dumps({**found, "report": str(page)}, indent=2, ensure_ascii=False))
        return
    if folder.is_done:
        summary = for_programs(folder)
        summary_table(summary)
        if "tuning" in summary:
            tuning_table(summary["tuning"])
    click.echo(f"Report: {page}")
