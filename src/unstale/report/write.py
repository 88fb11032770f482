"""Writes the report of a run folder into that folder."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from unstale.errors import RunError
from unstale.files import write_whole
from unstale.report.compare import ComparedRuns, compare
from unstale.report.context import Context
from unstale.report.html import build_comparison, build_page
from unstale.report.read import read_run


def write_report(run_dir: Path, out: Path | None = None) -> Path:
    """Write `report.html` and `plots/*.png` into a run folder, from that folder alone.

    The page is one file that needs no network. Each file is replaced as a whole, so a
    reader never meets half of one, and a report that fails leaves the last one as it was.

    Args:
        run_dir: A folder that `unstale run` wrote; an unfinished run is reported as such.
        out: Where the page is written instead of `report.html` in that folder, which then
            stays as it is.

    Returns:
        The path of the page.

    Raises:
        RunError: If `run_dir` is no run folder, is damaged, or cannot be written.
    """
    # Imported here: matplotlib is slow to import, and reading a run does not need it.
    from unstale.report.png import draw_plots

    run_dir = Path(run_dir)
    context = Context.of(read_run(run_dir))
    plots = draw_plots(context)
    page = build_page(dataclasses.replace(context, plots=plots))
    report = run_dir / "report.html" if out is None else Path(out)
    try:
        if out is None:
            for name, png in plots.items():
                write_whole(run_dir / "plots" / f"{name}.png", png)
        # A label may hold half a surrogate pair, which UTF-8 cannot.
        write_whole(report, page.encode("utf-8", "replace"))
    except OSError as error:
        raise _unwritable(report.parent, error) from error
    return report


def write_comparison(run_dirs: Sequence[Path], out: Path) -> ComparedRuns:
    """Write one page of several run folders; the folders stay as they are.

    Args:
        run_dirs: Folders that `unstale run` wrote, at least two.
        out: Where the page is written.

    Returns:
        What the page shows.

    Raises:
        RunError: If a folder is no run folder or is damaged, or `out` cannot be written.
    """
    from unstale.report.png import draw_plots

    found = compare(run_dirs, [read_run(Path(run_dir)) for run_dir in run_dirs])
    drawn = dataclasses.replace(found.context, plots=draw_plots(found.context))
    page = build_comparison(dataclasses.replace(found, context=drawn))
    try:
        write_whole(Path(out), page.encode("utf-8", "replace"))
    except OSError as error:
        raise _unwritable(Path(out).parent, error) from error
    return found


def _unwritable(folder: Path, error: OSError) -> RunError:
    return RunError(
        f"The report should be written into {folder}. Found: {error}. "
        "Check that the folder can be written and the disk is not full."
    )
