"""`Comparison`: what a simulation found, made from its run folder alone."""

import base64
import html
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from unstale.cli.tables import summary_cells, summary_table
from unstale.errors import ConfigError, RunError, UnknownNameError
from unstale.run_folder import Lines, Round, RunFolder, for_programs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Wide enough for every column with spreads.
TABLE_WIDTH = 110


@dataclass(frozen=True, slots=True)
class Plot:
    """A chart of a comparison; a notebook shows it."""

    figure: "Figure"
    """The chart as a figure of matplotlib."""

    def save(self, path: str | Path) -> Path:
        """Write the chart to a file, such as a PNG, PDF or SVG by its suffix."""
        self.figure.savefig(path, dpi=150)
        return Path(path)

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.figure.savefig(buffer, format="png", dpi=100)
        return buffer.getvalue()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Methods compared in one scenario. Prints as its table; a notebook also shows a plot."""

    folder: Path
    """The run folder, as `unstale run` writes it; any finished one will do."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))
        if not RunFolder(self.folder).is_done:
            raise RunError(
                f"A comparison should be of a finished run. {self.folder} has no summary.json. "
                "Go on with the run first."
            )

    @property
    def summary(self) -> dict[str, Any]:
        """The figures of every method, as `unstale run --json` prints them."""
        return for_programs(RunFolder(self.folder))

    @property
    def methods(self) -> Mapping[str, Any]:
        """The figures by method, such as `methods["convert"]["affected_accuracy"]`."""
        found: dict[str, Any] = self.summary["methods"]
        return found

    def rounds(self, label: str, seed: int | None = None) -> list[Round]:
        """Return the lines of all rounds of a method.

        Args:
            label: The method's label.
            seed: The seed; the first one if not given.

        Raises:
            UnknownNameError: If there is no such method.
            ConfigError: If the run has no such seed.
        """
        summary = self.summary
        if label not in summary["methods"]:
            raise UnknownNameError("A method of this comparison", label, summary["methods"])
        seed = summary["seeds"][0] if seed is None else seed
        if seed not in summary["seeds"]:
            raise ConfigError(f"`seed` should be one of {summary['seeds']}. Found {seed!r}.")
        return Lines(RunFolder(self.folder).lines_path(label, seed)).read()

    def table(self) -> str:
        """Return the table that the command line prints: one row per method, the best starred."""
        text = io.StringIO()
        console = Console(file=text, width=TABLE_WIDTH, force_jupyter=False)
        summary_table(self.summary, console)
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())

    def plot(self, path: str | Path | None = None) -> Plot:
        """Return the chart of accuracy by round, on the affected classes where there are some.

        Args:
            path: Also write it to this file.
        """
        from unstale.comparison.chart import draw_accuracy

        plot = Plot(draw_accuracy(self.folder))
        if path is not None:
            plot.save(path)
        return plot

    def report(self) -> Path:
        """Write `report.html` and `plots/` into the run folder; return the page's path."""
        from unstale.report import write_report

        return write_report(self.folder)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"{self.table()}\nRun: {self.folder}"

    def _repr_html_(self) -> str:
        cells = summary_cells(self.summary)
        first = "".join(f"<th>{html.escape(title)}</th>" for title in cells.titles)
        body = "".join(
            f"<tr><th>{html.escape(row[0])}</th>"
            + "".join(f"<td>{html.escape(cell)}</td>" for cell in row[1:])
            + "</tr>"
            for row in cells.rows
        )
        below = html.escape(f"{cells.caption}. Run: {self.folder}")
        image = base64.b64encode(self.plot()._repr_png_()).decode("ascii")
        return (
            f"<table><thead><tr>{first}</tr></thead><tbody>{body}</tbody></table>"
            f"<p><small>{below}</small></p>"
            f'<img alt="Accuracy by round" src="data:image/png;base64,{image}">'
        )
