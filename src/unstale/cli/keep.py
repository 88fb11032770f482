"""`unstale keep`: a copy of a finished run that is small enough to be committed."""

from pathlib import Path

import click

from unstale.cli.options import HELP
from unstale.out_places import require_folder


@click.command(context_settings=HELP)
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
def keep(run_dir: Path, out: Path) -> None:
    """Copy the finished run RUN_DIR into the new folder OUT, its lines compressed.

    The copy holds what `unstale report OUT` needs, and no path of this machine. A run from a
    tree with changes is refused if OUT is in the repository of Unstale.
    """
    from unstale.run_folder import RunFolder, keep_run

    require_folder(out, "OUT")
    kept = keep_run(RunFolder(run_dir), out)
    size = sum(path.stat().st_size for path in kept.rglob("*") if path.is_file())
    click.echo(f"Kept: {kept} ({size / 1000:.0f} kB)")
