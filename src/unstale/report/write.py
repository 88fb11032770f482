"""Writes the report of a run folder into that folder."""

import dataclasses
from pathlib import Path

from unstale.errors import RunError
from unstale.files import write_whole
from unstale.report.context import Context
from unstale.report.html import build_page
from unstale.report.read import read_run


def write_report(run_dir: Path) -> Path:
    """Write `report.html` and `plots/*.png` into a run folder, from that folder alone.

    The page is one file that needs no network. Each file is replaced as a whole, so a
    reader never meets half of one, and a report that fails leaves the last one as it was.

    Args:
        run_dir: A folder that `unstale run` wrote; an unfinished run is reported as such.

    Returns:
        The path of `report.html`.

    Raises:
        RunError: If `run_dir` is no run folder, is damaged, or cannot be written.
    """
    # Imported here: matplotlib is slow to import, and reading a run does not need it.
    from unstale.report.png import draw_plots

    run_dir = Path(run_dir)
    context = Context.of(read_run(run_dir))
    plots = draw_plots(context)
    page = build_page(dataclasses.replace(context, plots=plots))
    report = run_dir / "report.html"
    try:
        for name, png in plots.items():
            write_whole(run_dir / "plots" / f"{name}.png", png)
        # A label may hold half a surrogate pair, which UTF-8 cannot.
        write_whole(report, page.encode("utf-8", "replace"))
    except OSError as error:
        raise RunError(
            f"The report should be written into {run_dir}. Found: {error}. "
            "Check that the folder can be written and the disk is not full."
        ) from error
    return report
